//! The help of every command: its width, its examples.

use std::process::Command;

use crate::style::none;

/// A command by its words, and what its help says.
pub(super) struct Help {
    pub(super) words: Vec<String>,
    pub(super) text: String,
}

/// The help of the program and of each command, found by what the ones above list.
pub(super) fn helps() -> Vec<Help> {
    let (mut waiting, mut found) = (vec![Vec::new()], Vec::new());
    while let Some(words) = waiting.pop() {
        let text = help(&words);
        let listed = text.split("\nCommands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
        let names = listed.unwrap_or_default().lines().filter_map(|line| line.split_whitespace().next());
        waiting.extend(
            names.filter(|name| *name != "help").map(|name| [&words[..], &[name.to_owned()]].concat()),
        );
        found.push(Help { words, text });
    }
    found
}

fn help(words: &[String]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_atcr-workers")).args(words).arg("--help").env_clear().output();
    let output = output.unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

impl Help {
    /// What stands below `Examples:`. After three blanks a line goes on with what it is for; more than two before it, and
    /// all of it is.
    pub(super) fn examples(&self) -> Vec<String> {
        let lines = self.text.split("\nExamples:\n").nth(1).unwrap_or_default().replace("\\\n", "");
        let commands = lines.lines().filter(|line| line.starts_with("  ") && !line.starts_with("    "));
        let command = |line: &str| {
            let line = line.trim_start();
            // A joined line has the blanks of the one that it goes on with.
            let line = line.replace("       --", " --");
            line.split("   ").next().unwrap().trim().to_owned()
        };
        commands.map(command).collect()
    }
}

#[test]
fn every_command_is_explained_in_80_columns_with_examples() {
    let helps = helps();
    assert!(helps.len() > 20, "{} commands", helps.len());
    let wide = |help: &Help| -> Vec<String> {
        let lines = help.text.lines().filter(|line| line.chars().count() > 80 && !line.starts_with("Usage:"));
        lines.map(|line| format!("{}: {line}", help.words.join(" "))).collect()
    };
    none(helps.iter().flat_map(wide), "lines of help over 80 columns");
    let bare = helps.iter().filter(|help| help.examples().is_empty());
    none(bare.map(|help| help.words.join(" ")), "commands without an example");
    let strange = helps.iter().flat_map(Help::examples).filter(|example| !example.contains("atcr-workers"));
    none(strange, "examples that are none");
}

#[test]
fn the_reader_of_examples_joins_lines_and_leaves_out_what_they_are_for() {
    let text =
        "x\n\nExamples:\n  atcr-workers a   why\n  atcr-workers b \\\n      --c d    why\n  e\n      why\n";
    let help = Help { words: Vec::new(), text: text.to_owned() };
    assert_eq!(help.examples(), ["atcr-workers a", "atcr-workers b --c d", "e"]);
}
