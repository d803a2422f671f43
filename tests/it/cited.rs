//! Public reports of what went wrong with other people's leases. Each has a row, L1 to L41, and each row a test here, cited
//! as `// L7: owner/project#123` on a line of its own directly above it.

use std::collections::BTreeSet;

use crate::style::{Source, none, sources};

const ROWS: std::ops::RangeInclusive<usize> = 1..=41;

/// Rows whose tests start real processes under a fault runner, which is not here yet.
const ELSEWHERE: &[usize] = &[20, 21, 22, 23, 24, 25, 26, 29, 33, 35, 36, 41];

/// Lists of functions that a macro makes tests of, to their ends.
const LISTS: &[(&str, &str)] =
    &[("on_both! {", "}"), ("on_both_databases!(", ");"), ("lease_store_suite!(@tests ", ");")];

#[test]
fn every_known_fault_of_leases_has_a_test() {
    let sources = sources(&["actors", "tests"]);
    let cited: BTreeSet<usize> = sources.iter().flat_map(|source| citations(&source.text).0).collect();
    let stray = |source: &Source| -> Vec<String> {
        citations(&source.text).1.iter().map(|line| format!("{}:{line}", source.path)).collect()
    };
    none(sources.iter().flat_map(stray), "citations that stand above no test, or of no row");
    let missing = ROWS.filter(|row| !cited.contains(row) && !ELSEWHERE.contains(row));
    none(missing.map(|row| format!("L{row}")), "rows without a test");
    let here = ELSEWHERE.iter().filter(|row| cited.contains(row));
    none(here.map(|row| format!("L{row}")), "rows that are here by now: take them out of ELSEWHERE");
}

#[test]
fn only_a_citation_directly_above_a_test_counts() {
    let text = "// L1: a/b#1\n// L2: a/b#2\n#[test]\nfn a() {}\n\non_both! {\n    b\n}\n// L3: a/b#3\nasync fn b() {}\
                \n// L4: a/b#4\nfn c() {}\n\n// L5: a/b#5\n\n#[test]\nfn d() {}\n// L6: \n#[test]\nfn e() {}\
                \n// L42: a/b#6\n#[test]\nfn f() {}\n";
    assert_eq!(citations(text), (vec![1, 2, 3], vec![11, 14, 18, 21]));
}

/// The rows that a text cites above a test, and the numbers of the lines that look like it and are not.
fn citations(text: &str) -> (Vec<usize>, Vec<usize>) {
    let (lines, listed): (Vec<&str>, _) = (text.lines().collect(), listed(text));
    let (mut rows, mut stray) = (Vec::new(), Vec::new());
    for (at, line) in lines.iter().enumerate() {
        let Some((row, report)) = citation(line) else { continue };
        let below = lines[at..].iter().find(|line| citation(line).is_none());
        let is_test = below.is_some_and(|line| is_test(line, &listed));
        if is_test && ROWS.contains(&row) && report.contains('#') {
            rows.push(row);
        } else {
            stray.push(at + 1);
        }
    }
    (rows, stray)
}

/// The row and the report of `// L7: owner/project#123`.
fn citation(line: &str) -> Option<(usize, &str)> {
    let (row, report) = line.trim_start().strip_prefix("// L")?.split_once(':')?;
    Some((row.parse().ok()?, report.trim()))
}

fn is_test(line: &str, listed: &BTreeSet<&str>) -> bool {
    let line = line.trim_start();
    let name = line.split_once("fn ").and_then(|(_, rest)| rest.split('(').next());
    line.starts_with("#[test]")
        || line.starts_with("#[tokio::test")
        || name.is_some_and(|name| listed.contains(name))
}

/// The functions of a file of which macros make tests.
fn listed(text: &str) -> BTreeSet<&str> {
    let of = |(begin, end): &(&'static str, &'static str)| {
        text.split(begin).skip(1).map(|list| list.split(end).next().unwrap_or_default()).collect::<Vec<_>>()
    };
    let lists = LISTS.iter().flat_map(of);
    lists.flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_')).collect()
}
