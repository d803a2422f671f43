//! The rules of the code that a program can check. Each failure names the file and what is wrong with it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The product. Its files have size limits; those of the tests have not.
const PRODUCT: &[&str] = &["src", "actors/src", "tests/localnet/src"];
const EVERYTHING: &[&str] = &["src", "actors", "tests/it", "tests/localnet", "tests/faults", "benches"];

const FILE_LINES_MEDIAN: usize = 120;
const FILE_LINES_90TH: usize = 250;
const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;

/// deny.toml says why. Kept here too, for machines without cargo-deny.
const BANNED_CRATES: &[&str] = &["openssl", "openssl-sys", "native-tls", "aws-lc-rs", "aws-lc-sys", "pq-sys"];
/// They meet in `workers` and `app`, and share `outbox` and `store`.
const WORKERS: &[&str] = &["backfill", "billing", "cleanup", "health", "ingest", "labels", "webhooks"];
/// Words under which anything could be put.
const NAMES_THAT_SAY_NOTHING: &[&str] =
    &["common", "data", "helper", "manager", "misc", "mod", "util", "utils"];

pub(crate) struct Source {
    /// Relative to the root of the project.
    pub(crate) path: String,
    pub(crate) text: String,
}

#[test]
fn no_banned_crate_is_in_the_lock_file() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let locked = |name: &&&str| lock.lines().any(|line| line == format!("name = \"{name}\""));
    let found: Vec<_> = BANNED_CRATES.iter().filter(locked).collect();
    assert!(found.is_empty(), "Cargo.lock has {found:?}; `cargo tree -i NAME` says who brought it");
}

#[test]
fn files_are_small() {
    let mut sizes: Vec<_> = sources(PRODUCT)
        .into_iter()
        .filter(|source| !source.path.ends_with("tests.rs") && !source.path.contains("/tests/"))
        .map(|source| (product_lines(&source.text), source.path))
        .collect();
    sizes.sort();
    let at = |share: usize| &sizes[(sizes.len() - 1) * share / 100];
    for (share, limit) in [(50, FILE_LINES_MEDIAN), (90, FILE_LINES_90TH), (100, FILE_LINES_MAX)] {
        let (lines, path) = at(share);
        assert!(
            *lines <= limit,
            "of {} files, {share} % must be within {limit} lines: {path}: {lines}",
            sizes.len()
        );
    }
}

#[test]
fn functions_are_short() {
    let long = |source: &Source| -> Vec<String> {
        let functions = functions(&source.text).into_iter().filter(|(_, lines)| *lines > FUNCTION_LINES_MAX);
        functions.map(|(line, lines)| format!("{}:{line}: {lines} lines", source.path)).collect()
    };
    none(sources(EVERYTHING).iter().flat_map(long), "functions of more than 70 lines");
}

#[test]
fn each_file_opens_with_what_it_owns() {
    let silent = sources(EVERYTHING).into_iter().filter(|source| !source.text.starts_with("//!"));
    none(silent.map(|source| source.path), "files that do not start with `//!`");
}

#[test]
fn each_file_has_a_name_that_says_something() {
    let vague = |source: &Source| {
        let name = Path::new(&source.path).file_stem().unwrap().to_str().unwrap().to_owned();
        NAMES_THAT_SAY_NOTHING.contains(&name.as_str())
    };
    none(sources(EVERYTHING).into_iter().filter(vague).map(|source| source.path), "vague names, or mod.rs");
}

#[test]
fn only_the_store_names_diesel() {
    let of_store = |path: &str| path == "src/store.rs" || path.starts_with("src/store/");
    let found = sources(PRODUCT).into_iter().filter(|source| !of_store(&source.path));
    let found = found.filter(|source| code(&source.text).contains("diesel"));
    none(found.map(|source| source.path), "files outside src/store that name diesel");
}

#[test]
fn a_worker_never_imports_another_worker() {
    let imports = |source: &Source| -> Vec<String> {
        let module = source.path.trim_start_matches("src/").split(['/', '.']).next().unwrap().to_owned();
        if !source.path.starts_with("src/") || !WORKERS.contains(&module.as_str()) {
            return Vec::new();
        }
        let modules = modules_of_the_crate(&code(&source.text));
        let others =
            modules.into_iter().filter(|other| *other != module && WORKERS.contains(&other.as_str()));
        others.map(|other| format!("{} imports {other}", source.path)).collect()
    };
    none(sources(&["src"]).iter().flat_map(imports), "workers that know each other");
}

#[test]
fn the_actors_know_no_database_and_no_network() {
    let mut files = sources(&["actors"]);
    let manifest = "actors/Cargo.toml".to_owned();
    files.push(Source { text: fs::read_to_string(root().join(&manifest)).unwrap(), path: manifest });
    let names = |source: &Source| {
        let text = source.text.to_lowercase();
        ["diesel", "atproto", "reqwest"].iter().any(|word| text.contains(word))
    };
    none(
        files.into_iter().filter(names).map(|source| source.path),
        "files that name diesel, atproto or reqwest",
    );
}

#[test]
fn the_reader_of_functions_finds_their_ends() {
    let text = "fn a() {\n    b();\n}\n\ntrait T {\n    fn c(\n        d: u8,\n    ) -> u8;\n    async fn e() {}\n}\n";
    assert_eq!(functions(text), [(1, 3), (6, 3), (9, 1)]);
}

#[test]
fn the_reader_of_imports_sees_through_groups() {
    let code = "use crate::{\n    a::{b, c},\n    d,\n};\nlet x = crate::e::f();\nuse crate::g;\n";
    assert_eq!(modules_of_the_crate(code), ["a", "d", "e", "g"]);
}

pub(crate) fn none(found: impl Iterator<Item = String>, what: &str) {
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "{what}:\n{}", found.join("\n"));
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files under these folders, as far as they exist.
pub(crate) fn sources(folders: &[&str]) -> Vec<Source> {
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                sources.push(Source { path: path.strip_prefix(root()).unwrap().display().to_string(), text });
            }
        }
    }
    sources
}

/// The lines of a file without its unit tests, which stand at its end.
fn product_lines(text: &str) -> usize {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines().count()
}

/// The text without comments that have lines of their own.
fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// The first line and the number of lines of each function. It relies on rustfmt: a function ends with the first
/// brace that is indented as the function is.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = (0..lines.len()).filter(|&at| starts_function(lines[at]));
    starts.map(|at| (at + 1, function_lines(&lines[at..]))).collect()
}

fn starts_function(line: &str) -> bool {
    let words = line.split_whitespace();
    let mut rest = words.skip_while(|word| {
        word.starts_with("pub") || ["async", "const", "extern", "\"C\"", "unsafe"].contains(word)
    });
    rest.next() == Some("fn")
}

fn function_lines(lines: &[&str]) -> usize {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let mut has_body = false;
    let ends = |line: &&str| {
        let declared = !has_body && line.ends_with(';');
        has_body |= line.ends_with('{');
        let outer = line.len() - line.trim_start().len() == indent;
        declared || (outer && line.ends_with('}'))
    };
    lines.iter().position(ends).unwrap_or(lines.len()) + 1
}

/// The first path segment after each `crate::`, also in groups.
fn modules_of_the_crate(code: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            modules.push(first_word(after));
            continue;
        };
        let mut depth = 1;
        let mut expects_name = true;
        for (at, character) in group.char_indices() {
            match character {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => expects_name = true,
                _ if expects_name && !character.is_whitespace() => {
                    modules.push(first_word(&group[at..]));
                    expects_name = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    modules
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}
