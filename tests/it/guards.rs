//! The list of the leases' guards (`tests/guards/mutants`) does not rot: what each mutant takes out is still there,
//! once. That a test fails without it is for `tests/guards/run` to show, which takes half an hour.

use std::fs;
use std::path::Path;

#[derive(Default)]
struct Mutant {
    name: String,
    file: String,
    test: String,
    old: Vec<String>,
    new: Vec<String>,
}

#[test]
fn what_each_mutant_takes_out_stands_in_its_file_exactly_once() {
    let mutants = mutants();
    assert!(mutants.len() > 40, "only {} were read", mutants.len());
    let rotten = mutants.iter().filter_map(|mutant| {
        let source = fs::read_to_string(root().join(&mutant.file));
        let (old, new) = (mutant.old.join("\n"), mutant.new.join("\n"));
        let times = source.map(|source| source.matches(&old).count()).unwrap_or_default();
        let (is_named, changes) = (!mutant.test.is_empty(), !old.is_empty() && old != new);
        let is_sound = times == 1 && is_named && changes;
        (!is_sound).then(|| format!("[{}] {times} times in {:?}: {old}", mutant.name, mutant.file))
    });
    let rotten: Vec<_> = rotten.collect();
    assert!(
        rotten.is_empty(),
        "bring tests/guards/mutants up to date with the source:\n{}",
        rotten.join("\n")
    );
}

/// The table, as `tests/guards/run` reads it.
fn mutants() -> Vec<Mutant> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for line in fs::read_to_string(root().join("tests/guards/mutants")).unwrap().lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            mutants.push(Mutant { name: name.to_owned(), ..Mutant::default() });
        }
        let Some(mutant) = mutants.last_mut() else { continue };
        match line.split_at_checked(1) {
            Some(("-", old)) => mutant.old.push(old.to_owned()),
            Some(("+", new)) => mutant.new.push(new.to_owned()),
            _ => {}
        }
        match line.split_once(' ') {
            Some(("file", file)) => file.clone_into(&mut mutant.file),
            Some(("test", test)) => test.clone_into(&mut mutant.test),
            _ => {}
        }
    }
    mutants
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
