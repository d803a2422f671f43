//! What asks the process to end: signals, and its parent's death. The first asks, the second insists.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::parent::Parent;

/// SIGTERM and SIGINT. Made before any work starts, so that none is lost.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Taken when it has ended: that is told once.
    parent: Option<Parent>,
}

impl Signals {
    /// Takes the signals over from their default, which would end the process at once.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn install() -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, parent: None })
    }

    /// The same, and the parent's death counts as one.
    #[must_use]
    pub fn or_death_of(mut self, parent: Parent) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Waits for the next one, and names it. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = ended(self.parent.as_ref()) => {
                self.parent = None;
                "the parent's death"
            }
        }
    }
}

async fn ended(parent: Option<&Parent>) {
    match parent {
        Some(parent) => parent.ended().await,
        None => pending().await,
    }
}
