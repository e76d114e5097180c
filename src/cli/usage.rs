//! What is said of a command line that makes no sense.

use clap::error::ErrorKind;

use super::error::Failure;
use super::exit::Exit;
use super::output::Output;

/// Says it, and returns how the process ends: help and version are no errors.
pub(super) fn report(error: &clap::Error) -> Exit {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        // Nobody reads it: nothing to do about that.
        let _ = error.print();
        return Exit::Done;
    }
    let json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let failure = failure(&error.render().to_string());
    Output::new(json).failure(&failure);
    failure.exit
}

/// The parser's words in our three lines.
pub(super) fn failure(rendered: &str) -> Failure {
    let mut what = Vec::new();
    let mut usage = Vec::new();
    for line in rendered.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix("Usage: ") {
            Some(line) => usage.push(line.to_owned()),
            None if line.starts_with("For more information") => {}
            None => what.push(line.strip_prefix("error: ").unwrap_or(line).to_owned()),
        }
    }
    let what = what.join(" ");
    let mut failure = Failure::usage(if what.is_empty() { "no command was given" } else { &what });
    failure.next = usage;
    failure.next("tanist --help")
}
