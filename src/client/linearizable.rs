//! The handle of a `linearizable` namespace.

use std::ops::Deref;

use super::fence::FenceKey;
use super::space::Space;

/// A namespace in `linearizable` mode: its keys are registers. It can what a [`Space`] can, and fence.
///
/// Of several writes that read the same, exactly one is applied; the others are refused with it, and a
/// refusal is final: such a write is never applied later. A reading has one version or none.
///
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Linearizable(pub(super) Space);

impl Linearizable {
    /// The handle with every read and write fenced by a tenure. A fenced read *seals*: it raises the
    /// key's fence, so that no write of a lower term is applied any more.
    pub fn fenced_by(&self, fence: impl AsRef<FenceKey>) -> Self {
        Linearizable(self.0.fenced_by(fence))
    }
}

impl From<Linearizable> for Space {
    fn from(linearizable: Linearizable) -> Self {
        linearizable.0
    }
}

impl Deref for Linearizable {
    type Target = Space;

    fn deref(&self) -> &Space {
        &self.0
    }
}
