//! One contender; see `faults::contender`.

fn main() -> std::process::ExitCode {
    faults::contender::main()
}
