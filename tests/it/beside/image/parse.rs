//! Reads the Containerfile: its stages and their steps. What it does not know it refuses, so that no step is left out.

use std::collections::BTreeMap;

use super::super::read;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Paths of the project, or of another stage.
    Copy {
        from: Option<String>,
        sources: Vec<String>,
        to: String,
    },
    Run(String),
    Workdir(String),
    /// What is for the running of it, with its argument.
    Setting(String, String),
}

/// A stage: the image that it begins with, its name if it has one, and its steps.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) from: String,
    pub(super) name: Option<String>,
    pub(super) steps: Vec<Step>,
}

pub(in super::super) struct Containerfile {
    pub(super) stages: Vec<Stage>,
}

impl Containerfile {
    pub(in super::super) fn read() -> Self {
        Self::parse(&read("Containerfile"))
    }

    fn parse(text: &str) -> Self {
        let lines =
            text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
        let joined = lines.fold(String::new(), |text, line| match line.strip_suffix('\\') {
            Some(line) => text + line,
            None => text + line + "\n",
        });
        let mut stages: Vec<Stage> = Vec::new();
        for line in joined.lines() {
            let (instruction, argument) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            if instruction == "FROM" {
                let (from, name) = argument.split_once(" AS ").unzip();
                let from = from.unwrap_or(argument).to_owned();
                stages.push(Stage { from, name: name.map(str::to_owned), steps: Vec::new() });
            } else {
                let stage = stages.last_mut().expect("the first instruction is FROM");
                stage.steps.push(step(instruction, argument.trim()));
            }
        }
        Self { stages }
    }

    /// The last one, which is the image.
    pub(super) fn last(&self) -> &Stage {
        self.stages.last().unwrap()
    }

    fn settings(&self, instruction: &str) -> Vec<&str> {
        let setting = |step: &'_ Step| matches!(step, Step::Setting(name, _) if name == instruction);
        let found = self.last().steps.iter().filter(|step| setting(step));
        found.map(|step| if let Step::Setting(_, argument) = step { argument.as_str() } else { "" }).collect()
    }

    /// The variables of `ENV`.
    pub(in super::super) fn environment(&self) -> Vec<(String, String)> {
        let words = self.settings("ENV").into_iter().flat_map(str::split_whitespace);
        let pairs: BTreeMap<_, _> = words.map(|word| word.split_once('=').unwrap()).collect();
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The numbers of `USER`.
    pub(in super::super) fn user(&self) -> (u32, u32) {
        let (user, group) = self.settings("USER")[0].split_once(':').expect("a number for each");
        (user.parse().unwrap(), group.parse().unwrap())
    }

    /// The words of `ENTRYPOINT`.
    pub(super) fn entrypoint(&self) -> Vec<String> {
        serde_json::from_str(self.settings("ENTRYPOINT")[0]).unwrap()
    }
}

fn step(instruction: &str, argument: &str) -> Step {
    match instruction {
        "COPY" => {
            let mut words: Vec<&str> = argument.split_whitespace().collect();
            let from = words[0].strip_prefix("--from=").map(str::to_owned);
            if from.is_some() {
                words.remove(0);
            }
            assert!(words.iter().all(|word| !word.starts_with("--")), "COPY {argument}: an unknown option");
            let to = words.pop().unwrap().to_owned();
            Step::Copy { from, sources: words.into_iter().map(str::to_owned).collect(), to }
        }
        "RUN" => Step::Run(argument.to_owned()),
        "WORKDIR" => Step::Workdir(argument.to_owned()),
        "USER" | "VOLUME" | "ENV" | "EXPOSE" | "STOPSIGNAL" | "ENTRYPOINT" | "CMD" => {
            Step::Setting(instruction.to_owned(), argument.to_owned())
        }
        other => panic!("{other} {argument}: nobody performs it here"),
    }
}

#[test]
fn the_last_stage_is_from_scratch_and_what_the_program_needs_is_set() {
    let file = Containerfile::read();
    assert_eq!(file.last().from, "scratch");
    assert!(
        file.last().steps.iter().all(|step| !matches!(step, Step::Run(_))),
        "there is nothing to run it with"
    );
    assert_ne!(file.user().0, 0);
    assert_eq!(file.settings("STOPSIGNAL"), ["SIGTERM"]);
    assert_eq!(file.settings("CMD"), [r#"["run"]"#]);
    let port = file.environment().into_iter().find(|(name, _)| name == "ATCR__ADMIN__LISTEN").unwrap().1;
    assert_eq!(file.settings("EXPOSE"), [port.rsplit(':').next().unwrap()]);
}

#[test]
fn lines_are_joined_and_stages_told_apart() {
    let file = Containerfile::parse(
        "FROM a AS b\n# no\nRUN x \\\n && y\nFROM scratch\nCOPY --from=b /c /d\nENV E=1 \\\n    F=2\n",
    );
    assert_eq!(file.stages[0].name.as_deref(), Some("b"));
    assert_eq!(file.stages[0].steps, [Step::Run("x  && y".into())]);
    let copy = Step::Copy { from: Some("b".into()), sources: vec!["/c".into()], to: "/d".into() };
    assert_eq!(file.last().steps[0], copy);
    assert_eq!(file.environment(), [("E".into(), "1".into()), ("F".into(), "2".into())]);
}
