//! A worker's body in this process, without a supervisor.

use leased_actors::{
    clock::Clock,
    lease::Term,
    worker::{Context, Progress, Worker},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running worker.
pub(crate) struct Working {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Working {
    /// Starts it under this term.
    pub(crate) fn start(worker: impl Worker, term: Term) -> Working {
        let stop = CancellationToken::new();
        let context = Context { term, stop: stop.clone(), progress: Progress::new(Clock::boottime()) };
        let task = tokio::spawn(async move { worker.run(context).await.unwrap() });
        Working { stop, task }
    }

    /// Stops it as a supervisor does, and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}
