//! The run of a database, made once and shared by the tests of this process.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::OnceLock;

/// Chosen for nothing. README.md says how to play one that failed again.
const SEED: &str = "20260101";

/// What a run printed.
pub(crate) struct Short {
    text: String,
    pub(crate) passed: bool,
    rows: BTreeMap<String, Row>,
}

/// A nemesis in its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) times: u64,
    pub(crate) hand_overs: u64,
    pub(crate) slowest_ms: u64,
    pub(crate) violations: u64,
}

pub(crate) fn sqlite() -> &'static Short {
    static RUN: OnceLock<Short> = OnceLock::new();
    RUN.get_or_init(|| Short::play("sqlite"))
}

pub(crate) fn postgres() -> &'static Short {
    static RUN: OnceLock<Short> = OnceLock::new();
    RUN.get_or_init(|| Short::play("postgres"))
}

impl Short {
    fn play(database: &str) -> Self {
        let mut faults = Command::new(env!("CARGO_BIN_EXE_faults"));
        let output = faults.args(["run", "--seed", SEED, "--database", database]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        println!("{text}");
        let rows = text.lines().filter_map(Row::read).collect();
        Short { passed: output.status.success(), rows, text: text.into_owned() }
    }

    /// The row of a nemesis. None: this machine cannot do it, and the run said so with the reason.
    #[track_caller]
    pub(crate) fn row(&self, nemesis: &str) -> Option<Row> {
        if let Some(row) = self.rows.get(nemesis) {
            return Some(*row);
        }
        let said = self.text.lines().find(|line| line.starts_with(&format!("NOT RUN: {nemesis} (")));
        println!(
            "{}",
            said.unwrap_or_else(|| panic!("{nemesis} was passed over in silence:\n{}", self.text))
        );
        None
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The nemesis was there, and no invariant was broken meanwhile: I9 says that every lease was at work in time.
    #[track_caller]
    pub(crate) fn withstood(&self, nemesis: &str) {
        let Some(row) = self.row(nemesis) else { return };
        println!("{nemesis}: {row:?}");
        assert!(row.times > 0, "{row:?}");
        assert_eq!(row.violations, 0, "{}", self.text);
    }
}

impl Row {
    fn read(line: &str) -> Option<(String, Row)> {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let numbers: Vec<u64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let [times, hand_overs, slowest_ms, _bound_ms, violations] = numbers[..] else { return None };
        Some((name, Row { times, hand_overs, slowest_ms, violations }))
    }
}
