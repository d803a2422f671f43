//! A real browser on one page: Debian's Chromium, driven by `tests/peers/page.mjs`. It ends with this, or with the test process.

use std::{
    fmt::Debug,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

const CHROMIUM: &str = "/usr/bin/chromium";

/// Width and height of a window, in CSS pixels.
pub(crate) type Size = (u32, u32);

pub(crate) const DESKTOP: Size = (1280, 900);
pub(crate) const PHONE: Size = (390, 844);

/// See the module.
pub(crate) struct Browser {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Browser {
    /// Starts one. None, and a line that says so, where `ATCR_TEST_PEERS=skip` leaves other people's programs out.
    pub(crate) fn start() -> Option<Browser> {
        if super::peers::are_left_out("a test in a browser") {
            return None;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers");
        assert!(
            folder.join("node_modules/playwright-core").exists(),
            "the browser's driver is not installed; install it with:\n    bash tests/peers/install.sh"
        );
        let chromium = std::env::var("CHROMIUM").unwrap_or(CHROMIUM.to_owned());
        assert!(
            Path::new(&chromium).exists(),
            "no browser at {chromium}; install it with:\n    apt-get install -y --no-install-recommends chromium"
        );
        let mut child = Command::new("node")
            .arg(folder.join("page.mjs"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Some(Browser { child, requests, answers })
    }

    fn ask(&mut self, request: &Value) -> Result<Value, String> {
        let requests = self.requests.as_mut().expect("taken only by drop");
        writeln!(requests, "{request}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("the browser said {line:?}"));
        match &answer["error"] {
            Value::String(error) => Err(error.clone()),
            _ => Ok(answer["answer"].clone()),
        }
    }

    #[track_caller]
    fn does(&mut self, request: Value) -> Value {
        self.ask(&request).unwrap_or_else(|error| panic!("{request}: {error}"))
    }

    /// Opens a page in a window of this size, with colours `light` or `dark`, and waits until it is drawn.
    #[track_caller]
    pub(crate) fn open(&mut self, address: &str, size: Size, scheme: &str) {
        let (width, height) = size;
        let url = format!("http://{address}/");
        let request = json!({ "do": "open", "url": url, "width": width, "height": height, "scheme": scheme });
        assert_eq!(self.does(request), 200);
        self.until("the page is drawn", "document.body.dataset.drawn !== undefined");
    }

    /// The same page in another window.
    #[track_caller]
    pub(crate) fn look(&mut self, size: Size, scheme: &str) {
        let (width, height) = size;
        self.does(json!({ "do": "look", "width": width, "height": height, "scheme": scheme }));
    }

    /// What an expression of JavaScript is in the page.
    #[track_caller]
    pub(crate) fn tell(&mut self, script: &str) -> Value {
        self.does(json!({ "do": "tell", "script": script }))
    }

    /// Waits until an expression is true, and gives it.
    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, script: &str) -> Value {
        let request = json!({ "do": "until", "script": script, "within": 30_000 });
        self.ask(&request).unwrap_or_else(|error| {
            let shown = self.tell("document.body.innerText");
            panic!("not in time: {what} ({script}): {error}\nthe page shows:\n{}", shown.as_str().unwrap())
        })
    }

    #[track_caller]
    pub(crate) fn press(&mut self, key: &str) {
        self.does(json!({ "do": "press", "key": key }));
    }

    #[track_caller]
    pub(crate) fn click(&mut self, at: &str) {
        self.does(json!({ "do": "click", "at": at }));
    }

    #[track_caller]
    pub(crate) fn write(&mut self, at: &str, text: &str) {
        self.does(json!({ "do": "write", "at": at, "text": text }));
    }

    /// A picture of the whole page.
    #[track_caller]
    pub(crate) fn shot(&mut self, path: &Path) {
        self.does(json!({ "do": "shot", "path": path }));
    }

    /// The accessibility check finds nothing.
    #[track_caller]
    pub(crate) fn is_accessible(&mut self, where_: impl Debug) {
        let found = self.does(json!({ "do": "axe" }));
        assert_eq!(found, json!([]), "{where_:?}: {found:#}");
    }

    /// Nothing was complained of or refused, and nothing asked for elsewhere, but for what `expected` has a part of.
    #[track_caller]
    pub(crate) fn was_quiet(&mut self, expected: &[&str]) {
        let noise = self.does(json!({ "do": "noise" }));
        let all = noise.as_object().unwrap().values().flat_map(|list| list.as_array().unwrap());
        let texts: Vec<_> = all.map(|text| text.as_str().unwrap()).collect();
        let unexpected = texts.iter().filter(|text| !expected.iter().any(|part| text.contains(part)));
        assert_eq!(unexpected.count(), 0, "{texts:#?}");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}
