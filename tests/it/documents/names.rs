//! Settings, links, benches and files that the documents name.

use std::collections::BTreeSet;

use crate::documents::shown::{Document, documents, root};
use crate::style::none;

/// The keys of settings/default.toml.
fn keys() -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("settings/default.toml")).unwrap();
    let (mut section, mut keys) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((key, _)) = line.split_once(" = ")
            && !key.starts_with(['#', ' '])
        {
            keys.insert(format!("{section}.{key}"));
        }
    }
    keys
}

#[test]
fn every_setting_that_a_document_names_is_one() {
    let keys = keys();
    assert!(keys.len() > 50 && keys.contains("jetstream.urls"), "{keys:?}");
    let sections: BTreeSet<&str> = keys.iter().map(|key| key.split_once('.').unwrap().0).collect();
    let unknown = |document: &Document| -> Vec<String> {
        let named = document.spans().into_iter().filter(|span| {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
            let (section, key) = span.split_once('.').unwrap_or_default();
            sections.contains(section) && key.len() > 2 && span.chars().all(plain)
        });
        let unknown = named.filter(|span| !keys.contains(span) && !NO_SETTINGS.contains(&span.as_str()));
        unknown.map(|span| format!("{}: {span}", document.path)).collect()
    };
    none(documents().iter().flat_map(unknown), "settings that there are not");
}

/// Files of that name.
const NO_SETTINGS: &[&str] = &["labeler.mjs", "labeler.json"];

#[test]
fn each_setting_stands_below_a_line_that_says_what_it_is_for() {
    let text = std::fs::read_to_string(root().join("settings/default.toml")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut section_has_words = false;
    let mut bare = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with('[') {
            section_has_words = false;
        } else if line.starts_with('#') {
            section_has_words = true;
        } else if line.contains(" = ") && !line.starts_with(' ') && !section_has_words {
            bare.push(format!("line {}: {line}", at + 1));
        }
    }
    none(bare.into_iter(), "settings without a word");
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    none(documents().iter().flat_map(broken_links), "links that lead nowhere");
}

fn broken_links(document: &Document) -> Vec<String> {
    let folder = root().join(&document.path).parent().unwrap().to_owned();
    let targets = document.text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to);
    let is_broken = |to: &&str| {
        if to.contains("://") {
            return false;
        }
        let (file, anchor) = to.split_once('#').unwrap_or((to, ""));
        let text = match file {
            "" => document.text.clone(),
            file => match std::fs::read_to_string(folder.join(file)) {
                Ok(text) => text,
                // A folder, or a file that is no text: it has no headings.
                Err(_) if folder.join(file).exists() => String::new(),
                Err(_) => return true,
            },
        };
        !anchor.is_empty() && !anchors(&text).contains(anchor)
    };
    targets.filter(is_broken).map(|to| format!("{}: {to}", document.path)).collect()
}

/// The anchors that a reader of Markdown makes of headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let plain = |heading: &str| -> String {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-');
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(plain).collect()
}

#[test]
fn a_link_to_no_file_or_no_heading_is_found() {
    let of = |text: &str| broken_links(&Document { path: "README.md".into(), text: text.into() }).len();
    assert_eq!(of("# A b\n[x](#a-b) [y](Cargo.toml) [z](https://a.example)"), 0);
    assert_eq!(of("# A b\n[x](#b) [y](nothing.md)"), 2);
}

#[test]
fn every_bench_and_example_that_a_document_names_is_there() {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let after = |text: &str, flag: &str| -> Vec<String> {
        text.split(flag)
            .skip(1)
            .filter_map(|rest| Some(rest.split_whitespace().next()?.trim_matches('`').to_owned()))
            .collect()
    };
    let mut missing = Vec::new();
    for document in documents() {
        for bench in after(&document.text, "cargo bench --bench ") {
            if !manifest.contains(&format!("[[bench]]\nname = \"{bench}\"")) {
                missing.push(format!("{}: bench {bench}", document.path));
            }
        }
        for example in after(&document.text, "--example ") {
            if !root().join(format!("actors/examples/{example}.rs")).exists() {
                missing.push(format!("{}: example {example}", document.path));
            }
        }
    }
    none(missing.into_iter(), "benches and examples that there are not");
}
