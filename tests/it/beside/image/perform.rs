//! Performs the steps of the Containerfile in a folder per stage.
//!
//! Of `RUN` the packages of the system are left out: this machine has a compiler. Paths that a command names in the image
//! are those of the stage's folder, and certificates those of this machine. With `ATCR_TEST_IMAGE=release` the program is
//! built as the file says; otherwise the one of these tests takes its place, with this machine's C library, and what was
//! copied is only looked at.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::parse::{Containerfile, Stage, Step};
use crate::support::programs::{not_run, run};

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");
const BINARY: &str = env!("CARGO_BIN_EXE_atcr-workers");
const BUILD: &str = "cargo build --release --locked --bin atcr-workers";
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Whether it is built as it is shipped, which takes minutes.
pub(super) fn is_shipped() -> bool {
    std::env::var("ATCR_TEST_IMAGE").is_ok_and(|value| value == "release")
}

/// The root file system of the image. None: said.
pub(super) fn image(file: &Containerfile) -> Option<PathBuf> {
    let what = "building the container image";
    if !Path::new(CERTIFICATES).exists() {
        not_run(what, "this machine has no certificates: install ca-certificates");
        return None;
    }
    // Kept, so that the second time is short.
    let folder = target().join("image");
    for stage in &file.stages {
        let name = stage.name.as_deref().unwrap_or("last");
        perform(stage, &folder, &folder.join(name));
    }
    Some(folder.join("last"))
}

fn perform(stage: &Stage, folder: &Path, root: &Path) {
    let mut place = PathBuf::from("/");
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root).unwrap();
    for step in &stage.steps {
        match step {
            Step::Workdir(path) => place = path.into(),
            Step::Setting(..) => {}
            Step::Copy { from, sources, to } => {
                let to = inside(root, &place.join(to));
                for source in sources {
                    match from {
                        None => copy(&Path::new(PROJECT).join(source), &to, sources.len() > 1),
                        Some(stage) => contents(&inside(&folder.join(stage), Path::new(source)), &to),
                    }
                }
            }
            Step::Run(command) if command.starts_with("apk ") => {}
            Step::Run(command) => build(command, root, &inside(root, &place), folder),
        }
    }
}

/// What `COPY` does of the project, but for what Containerfile.dockerignore keeps out. Times are kept: what has not
/// changed is not built again.
fn copy(from: &Path, to: &Path, into: bool) {
    assert!(from.exists(), "{}: the Containerfile copies what there is not", from.display());
    fs::create_dir_all(if into { to } else { to.parent().unwrap() }).unwrap();
    let ignored = super::super::read("Containerfile.dockerignore");
    let patterns =
        ignored.lines().filter_map(|line| line.strip_prefix("**/")).map(|name| format!("--exclude={name}"));
    let (parent, name) = (from.parent().unwrap(), from.file_name().unwrap());
    let into = if from.is_dir() || !to.is_dir() { to.parent().unwrap() } else { to };
    let pack = format!(
        "tar -C '{}' {} -cf - '{}' | tar -C '{}' -xf -",
        parent.display(),
        patterns.collect::<Vec<_>>().join(" "),
        name.to_str().unwrap(),
        into.display()
    );
    let verdict = run(Command::new("sh").args(["-c", &pack]), "");
    assert!(verdict.passed, "{}", verdict.said);
    assert!(into.join(name) == *to || !from.is_dir(), "{} is copied under another name", from.display());
}

/// What `COPY --from` does of a folder.
fn contents(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let verdict = run(Command::new("cp").args(["-a", "-T"]).arg(from).arg(to), "");
    assert!(verdict.passed, "{}", verdict.said);
}

/// What `RUN` does.
fn build(command: &str, root: &Path, place: &Path, folder: &Path) {
    assert!(command.contains(BUILD), "{command}: it builds in another way");
    let command = command.replace(" /image", &format!(" {}/image", root.display()));
    let mut shell = Command::new("sh");
    if is_shipped() {
        let (triple, out) = (host(), folder.join("target"));
        fs::create_dir_all(out.join(&triple)).unwrap();
        std::os::unix::fs::symlink(out.join(&triple), place.join("target")).unwrap();
        shell.args(["-ec", &command]).env("CARGO_TARGET_DIR", &out).env("CARGO_BUILD_TARGET", &triple);
        // As it is where musl is the system's C library.
        shell.env("RUSTFLAGS", "-C target-feature=+crt-static");
    } else {
        can_be_built(place);
        let built = place.join("target/release");
        fs::create_dir_all(&built).unwrap();
        fs::copy(BINARY, built.join("atcr-workers")).unwrap();
        shell.args(["-ec", &command.replace(BUILD, "true")]);
    }
    let verdict = run(shell.current_dir(place), "");
    assert!(verdict.passed, "{command}\n{}", verdict.said);
    if !is_shipped() {
        add_libraries(&root.join("image"));
    }
}

/// Whether everything was copied that a build needs: the workspace's members and targets, and the files that the source
/// includes.
fn can_be_built(place: &Path) {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version=1"]).current_dir(place);
    let verdict = run(&mut cargo, "");
    assert!(verdict.passed, "{}", verdict.said);
    let sources = run(
        Command::new("grep")
            .args(["-rhoE", "include_(str|bytes)!\\(\"[^\"]+\"", "src", "actors/src"])
            .current_dir(place),
        "",
    );
    let included: Vec<&str> = sources.said.lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert!(!included.is_empty(), "{}", sources.said);
    for name in included.iter().map(|path| path.trim_start_matches("../")) {
        let find =
            run(Command::new("find").args([".", "-path", &format!("*/{name}")]).current_dir(place), "");
        assert!(!find.said.trim().is_empty(), "{name} is included, and not copied");
    }
    assert!(place.join("migrations").is_dir() && place.join("Cargo.lock").is_file());
}

/// The C library and its loader, which the binary of the tests needs and that of the image has in itself.
fn add_libraries(image: &Path) {
    let listed = run(Command::new("ldd").arg(BINARY), "").said;
    for word in listed.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = inside(image, Path::new(word));
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(word, to).unwrap();
    }
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap())
}

/// Where cargo builds: the folder above the one of this test.
fn target() -> PathBuf {
    Path::new(BINARY).ancestors().nth(2).unwrap().to_owned()
}

fn host() -> String {
    let said = run(Command::new("rustc").arg("-vV"), "").said;
    said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}
