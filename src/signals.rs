//! The signals that end the process: the first asks, the second insists.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT. Made before any work starts, so that none is lost.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Takes the signals over from their default, which would end the process at once.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn install() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one, and names it. Cancel-safe.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
