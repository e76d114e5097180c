//! Decisions drawn from an input: bytes read as a program.

/// What is left of an input. When it is used up, every draw is 0.
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// Draws from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Source(bytes)
    }

    /// Whether all is used up.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub fn coin(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// True once in 256 times of random bytes, and when the byte is written so.
    pub fn rarely(&mut self) -> bool {
        self.byte() == 0xff
    }

    /// Below `n`, which is at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// One of `all`.
    pub fn pick<'t, T>(&mut self, all: &'t [T]) -> Option<&'t T> {
        let at = self.below(all.len());
        all.get(at)
    }

    /// A number: small ones often, and those at which arithmetic goes wrong.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=199 => u64::from(small),
            200..=219 => u64::MAX - u64::from(self.byte()),
            220..=229 => (1 << 62) + u64::from(self.byte()) - 128,
            230..=239 => (1 << 32) + u64::from(self.byte()) - 128,
            240..=247 => 1 << (self.byte() & 63),
            _ => u64::from_be_bytes(self.array()),
        }
    }

    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// Up to `most` bytes, of a length that is drawn first.
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let len = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        taken.to_vec()
    }
}
