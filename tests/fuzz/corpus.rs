//! The file format of a corpus: an input to a line, in hexadecimal; a line with `#` is a comment.

use std::path::Path;

use data_encoding::HEXLOWER;

/// The inputs in a file; none, if there is no file.
pub fn read(path: &Path) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| HEXLOWER.decode(line.as_bytes()).expect("hexadecimal digits")).collect()
}
