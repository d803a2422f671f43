//! Programs of others that judge our files: promtool, systemd-analyze, and those of `tests/peers/requirements.txt`.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A judge: its program, and who installs it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Judge {
    Promtool,
    SystemdAnalyze,
    Hadolint,
    KubernetesValidate,
    ComposeSpec,
}

/// Of the packages of Python.
const PYTHON: &str = "tests/peers/.peers/venv/bin";

impl Judge {
    /// Its program. None, and a line that says so, where `ATCR_TEST_PEERS=skip` leaves out what others made.
    pub(crate) fn find(self) -> Option<Command> {
        if std::env::var("ATCR_TEST_PEERS").is_ok_and(|value| value == "skip") {
            not_run(&format!("what {self:?} says of our files"), "ATCR_TEST_PEERS=skip");
            return None;
        }
        let (program, install) = match self {
            Judge::Promtool => ("promtool", "apt-get install --no-install-recommends prometheus"),
            Judge::SystemdAnalyze => ("systemd-analyze", "apt-get install --no-install-recommends systemd"),
            Judge::Hadolint => ("hadolint", "bash tests/peers/install.sh python"),
            Judge::KubernetesValidate => ("kubernetes-validate", "bash tests/peers/install.sh python"),
            Judge::ComposeSpec => ("python", "bash tests/peers/install.sh python"),
        };
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join(PYTHON);
        let folder = |folder: PathBuf| Some(folder.join(program)).filter(|path| path.is_file());
        let found = match self {
            Judge::Promtool | Judge::SystemdAnalyze => on_path(program),
            _ => folder(python),
        };
        let found =
            found.unwrap_or_else(|| panic!("{program} is not there; install it with:\n    {install}"));
        Some(Command::new(found))
    }

    /// Runs it with these arguments and this input. None: left out.
    pub(crate) fn ask(self, arguments: &[&str], input: &str) -> Option<Verdict> {
        let mut command = self.find()?;
        command.args(arguments).env("NO_COLOR", "1").env("SYSTEMD_COLORS", "0").env("SYSTEMD_PAGER", "cat");
        Some(run(&mut command, input))
    }
}

/// What a program said at its end.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) passed: bool,
    pub(crate) said: String,
}

/// Runs a command to its end with this input; both of its outputs, one after the other.
pub(crate) fn run(command: &mut Command, input: &str) -> Verdict {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_owned();
    // Who does not read its input is no fault; what it says is.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Verdict { passed: output.status.success(), said: said.concat() }
}

/// Where a program is.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Says that a test, or a part of it, was not run.
pub(crate) fn not_run(what: &str, why: &str) {
    // Not eprintln: what a passing test prints is not shown.
    std::io::stderr().write_all(format!("not run: {what}: {why}\n").as_bytes()).unwrap();
}
