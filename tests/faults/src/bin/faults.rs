//! The fault runner; see `faults::runner`.

fn main() -> std::process::ExitCode {
    faults::runner::main()
}
