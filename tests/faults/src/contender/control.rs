//! What a contender is told on stdin while it runs.

use std::io::BufRead;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leased_actors::clock::Clock;

use crate::history::{Event, Recorder, What};

/// Between two children. At half, a loaded machine does nothing else.
const SPAWN_EVERY: Duration = Duration::from_millis(10);

/// Children at once; each lives for a second.
const CHILDREN_MAX: usize = 50;

/// The state that commands change.
#[derive(Clone)]
pub(super) struct Control {
    deaf: Arc<AtomicBool>,
}

impl Control {
    /// Follows the commands on a thread of its own, until stdin ends.
    pub(super) fn listen(clock: Clock, recorder: Recorder, process: String) -> Self {
        let control = Self { deaf: Arc::default() };
        let told = control.clone();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                told.obey(&line, &clock, &recorder, &process);
            }
        });
        control
    }

    /// Whether the store's news are dropped.
    pub(super) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::SeqCst)
    }

    fn obey(&self, line: &str, clock: &Clock, recorder: &Recorder, process: &str) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("deafen", _) => self.deaf.store(true, Ordering::SeqCst),
            ("hear", _) => self.deaf.store(false, Ordering::SeqCst),
            ("spawn", _) => drop(std::thread::spawn(spawn_for_ever)),
            ("shift", by) => {
                let by = Duration::from_millis(by.parse().expect("`shift` has a number of milliseconds"));
                clock.advance(by);
                let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
                recorder.write(&Event::now(process, What::Shifted { by }));
            }
            _ => panic!("unknown command: {line}"),
        }
    }
}

/// As a program that starts others all the time: each has, for a moment, what its parent had open.
fn spawn_for_ever() {
    let mut children: Vec<Child> = Vec::new();
    loop {
        children.retain_mut(|child| child.try_wait().is_ok_and(|ended| ended.is_none()));
        if children.len() < CHILDREN_MAX {
            let mut sleep = Command::new("sleep");
            sleep.arg("1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            children.extend(sleep.spawn());
        }
        std::thread::park_timeout(SPAWN_EVERY);
    }
}
