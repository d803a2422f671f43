//! What the documents show: blocks of code, inline code, tables. Read from the Markdown files that are the project's own.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Folders that are not ours, or have no documents.
const PASSED_OVER: &[&str] = &["target", "node_modules", ".git", ".peers"];

pub(super) struct Document {
    /// Relative to the root of the project.
    pub(super) path: String,
    pub(super) text: String,
}

/// A block between fences.
#[derive(Debug, PartialEq)]
pub(super) struct Block {
    /// What stands after the opening fence.
    pub(super) language: String,
    /// The last line with text before it.
    pub(super) above: String,
    pub(super) text: String,
}

pub(super) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file of the project, by path.
pub(super) fn documents() -> Vec<Document> {
    let (mut folders, mut found) = (vec![root().to_owned()], Vec::<PathBuf>::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !PASSED_OVER.contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found.sort();
    let document = |path: PathBuf| Document {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(root()).unwrap().display().to_string(),
    };
    found.into_iter().map(document).collect()
}

pub(super) fn document(path: &str) -> Document {
    Document { path: path.to_owned(), text: fs::read_to_string(root().join(path)).unwrap() }
}

impl Document {
    /// The blocks between fences.
    pub(super) fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open, mut above) = (Vec::new(), None::<Block>, "");
        for line in self.text.lines() {
            match (&mut open, line.trim_start().strip_prefix("```")) {
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => block.text += &format!("{line}\n"),
                (None, Some(language)) => {
                    let (language, above) = (language.to_owned(), above.to_owned());
                    open = Some(Block { language, above, text: String::new() });
                }
                (None, None) if !line.trim().is_empty() => above = line,
                (None, None) => {}
            }
        }
        blocks
    }

    /// What stands between single backticks, outside of blocks.
    pub(super) fn spans(&self) -> Vec<String> {
        self.outside().flat_map(spans).collect()
    }

    /// The cells of every row of every table, trimmed, with the heading above it.
    pub(super) fn rows(&self) -> Vec<(String, Vec<String>)> {
        let (mut heading, mut rows) = (String::new(), Vec::new());
        for line in self.outside() {
            if let Some(text) = line.strip_prefix('#') {
                heading = text.trim_start_matches('#').trim().to_owned();
            } else if let Some(cells) = line.strip_prefix("| ").and_then(|line| line.strip_suffix('|')) {
                rows.push((heading.clone(), cells.split(" |").map(|cell| cell.trim().to_owned()).collect()));
            }
        }
        rows
    }

    fn outside(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.text.lines().filter(move |line| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            !inside && !fence
        })
    }
}

/// What stands between single backticks in a line.
pub(super) fn spans(line: &str) -> Vec<String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The commands of a block: a line each, a backslash at its end joins it with the next, comments are left out.
pub(super) fn lines(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split(" # ").next().unwrap());
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

#[test]
fn the_reader_finds_blocks_spans_and_rows() {
    let text = "# A\nRun `x y`:\n\n```sh\n# why\na \\\n    b  # c\n```\n| c | `d` |\n|---|---|\n| e | |\n";
    let document = Document { path: String::new(), text: text.to_owned() };
    let [block] = &document.blocks()[..] else { panic!("one block") };
    assert_eq!((block.language.as_str(), block.above.as_str()), ("sh", "Run `x y`:"));
    assert_eq!(lines(&block.text), ["a b"]);
    assert_eq!(document.spans(), ["x y", "d"]);
    let row =
        |cells: &[&str]| ("A".to_owned(), cells.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>());
    assert_eq!(document.rows(), [row(&["c", "`d`"]), row(&["e", ""])]);
    assert!(documents().iter().any(|document| document.path == "README.md"));
}
