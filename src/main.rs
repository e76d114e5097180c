//! The `tanist` binary: its commands are in `tanist::cli`.

fn main() -> std::process::ExitCode {
    tanist::cli::main()
}
