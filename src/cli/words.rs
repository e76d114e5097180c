//! Commands to type next, quoted for a shell.

use data_encoding::HEXLOWER;

use super::args::Global;
use crate::core::object::Key;

/// `word` as a shell takes it for one word.
pub(super) fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@%+,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// `key` as arguments: as it is if that can be typed, else in hexadecimal digits.
pub(super) fn key_words(key: &Key) -> Vec<String> {
    match std::str::from_utf8(key.as_bytes()) {
        Ok(text) if !text.starts_with('-') && !text.chars().any(char::is_control) => vec![text.to_owned()],
        _ => vec![HEXLOWER.encode(key.as_bytes()), "--key-hex".to_owned()],
    }
}

/// Where a command works: what it takes to make the next one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) global: &'a Global,
    pub(super) namespace: &'a str,
    pub(super) key: Option<&'a Key>,
}

impl Site<'_> {
    /// `tanist VERB NS KEY REST`. Words of `rest` in capitals are for the reader to replace.
    pub(super) fn line(&self, verb: &str, rest: &[&str]) -> String {
        let mut words = vec![verb.to_owned(), self.namespace.to_owned()];
        words.extend(self.key.map(key_words).unwrap_or_default());
        words.extend(rest.iter().map(|word| (*word).to_owned()));
        self.global.line(&words)
    }

    /// What the command is about, for people: `carts/user-7`.
    pub(super) fn name(&self) -> String {
        match self.key {
            Some(key) => format!("{}/{key}", self.namespace),
            None => self.namespace.to_owned(),
        }
    }
}

impl Global {
    /// `tanist WORDS`, with the flags of this command line that the environment does not repeat.
    pub(super) fn line<S: AsRef<str>>(&self, words: &[S]) -> String {
        let mut line = String::from("tanist");
        // What follows `--` is not ours.
        let end = words.iter().position(|word| word.as_ref() == "--").unwrap_or(words.len());
        let (ours, theirs) = words.split_at(end);
        let ours = ours.iter().map(|word| word.as_ref().to_owned());
        let theirs = theirs.iter().map(|word| word.as_ref().to_owned());
        for word in ours.chain(self.flags()).chain(theirs) {
            line.push(' ');
            line.push_str(&quoted(&word));
        }
        line
    }

    fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        let files = [("--ticket", "TANIST_TICKET", &self.ticket), ("--key", "TANIST_KEY", &self.identity)];
        for (flag, variable, file) in files {
            if let Some(file) = file
                && std::env::var_os(variable).as_deref() != Some(file.as_os_str())
            {
                flags.extend([flag.to_owned(), file.to_string_lossy().into_owned()]);
            }
        }
        flags.extend(self.at.iter().flat_map(|node| ["--at".to_owned(), node.clone()]));
        flags
    }
}
