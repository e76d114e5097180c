//! Bytes as text that survives a clipboard: a title, then base64 in lines.

use data_encoding::BASE64;

use super::limits;

/// Characters of a line at most.
const LINE: usize = 76;

/// A text is not what its reader expects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotArmored {
    /// Another first line.
    #[error("the first line is not `{0}`")]
    Title(&'static str),
    /// Something else than base64.
    #[error("after the first line comes base64, and nothing else")]
    Digits,
    /// More than any message may have.
    #[error("it is longer than any file of its kind")]
    TooLong,
}

/// `bytes` under `title`.
pub fn write(title: &str, bytes: &[u8]) -> String {
    let digits = BASE64.encode(bytes);
    let mut text = format!("{title}\n");
    let mut rest = digits.as_str();
    while !rest.is_empty() {
        let (line, left) = rest.split_at(rest.len().min(LINE));
        text.extend([line, "\n"]);
        rest = left;
    }
    text
}

/// The bytes under `title`. White space between the digits does not matter.
pub fn read(title: &'static str, text: &str) -> Result<Vec<u8>, NotArmored> {
    if text.len() > 2 * limits::FRAME_LEN {
        return Err(NotArmored::TooLong);
    }
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if first.trim_end() != title {
        return Err(NotArmored::Title(title));
    }
    let digits: Vec<u8> = rest.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(&digits).map_err(|_| NotArmored::Digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        for len in [0, 1, 56, 57, 58, 300] {
            let bytes = vec![7u8; len];
            let text = write("title", &bytes);
            assert!(text.lines().all(|line| line.len() <= LINE));
            assert_eq!(read("title", &text), Ok(bytes.clone()));
            assert_eq!(read("title", &text.replace('\n', "\r\n")), Ok(bytes));
            assert_eq!(read("other", &text), Err(NotArmored::Title("other")));
        }
        assert_eq!(read("title", "title\nAAAA!"), Err(NotArmored::Digits));
        assert_eq!(read("title", &"A".repeat(2 * limits::FRAME_LEN + 1)), Err(NotArmored::TooLong));
    }
}
