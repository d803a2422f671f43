//! What an application writes, and the actor that runs one of them for one term.
//!
//! The worker's body is a plain task with a token; the actor is a thin shell around it. It never awaits the body: the
//! supervisor learns of the body's end, and only of its real end, through its `finished` token.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Moment};
use crate::lease::{Effects, LeaseName, Term};
use crate::metrics::Meter;
use crate::restart::Intensity;

/// Why a worker could not go on. Its text goes into the log and the last-failure field.
pub type WorkerError = Box<dyn std::error::Error + Send + Sync>;

/// One job that must run on exactly one instance. `WORKERS.md` of this crate says what it has to do; in short:
///
/// ```
/// use leased_actors::lease::{Effects, LeaseName};
/// use leased_actors::worker::{Context, Worker, WorkerError};
///
/// struct Mail;
///
/// #[async_trait::async_trait]
/// impl Worker for Mail {
///     fn name(&self) -> LeaseName {
///         "mail".parse().expect("a good name")
///     }
///
///     // It sends: its successor waits the grace, and it stops as soon as trust ends.
///     fn effects(&self) -> Effects {
///         Effects::External
///     }
///
///     async fn run(&self, context: Context) -> Result<(), WorkerError> {
///         while let Some(()) = context.stop.run_until_cancelled(next_mail()).await {
///             if context.term.is_trusted() {
///                 // Send it, with an id that is the same in the next attempt.
///             }
///             context.progress.made();
///         }
///         Ok(())
///     }
/// }
///
/// async fn next_mail() {
///     std::future::pending().await
/// }
///
/// # use std::time::Duration;
/// # use leased_actors::{clock::Clock, lease::{Epoch, Incarnation, Term, TermId, Trust}, worker::Progress};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), WorkerError> {
/// // A test needs no supervisor:
/// let clock = Clock::boottime();
/// let id = TermId { name: Mail.name(), holder: Incarnation::new(), epoch: Epoch(1) };
/// let term = Term::new(id, Trust::none(clock.clone()));
/// let stop = tokio_util::sync::CancellationToken::new();
/// let context = Context { term, stop: stop.clone(), progress: Progress::new(clock) };
/// let running = tokio::spawn(async move { Mail.run(context).await });
/// stop.cancel();
/// running.await?
/// # }
/// ```
#[async_trait]
pub trait Worker: Send + Sync + 'static {
    /// The lease that it runs under.
    fn name(&self) -> LeaseName;

    /// Where its effects go.
    fn effects(&self) -> Effects;

    /// How often it may fail before its lease goes elsewhere.
    fn intensity(&self) -> Intensity {
        Intensity::default()
    }

    /// The longest time without [`Progress::made`] after which it counts as failed; none = it is never asked. A process
    /// that renews while its work hangs would keep the lease for ever (kcp#3196, swarmkit#1658).
    fn progress_within(&self) -> Option<Duration> {
        None
    }

    /// Works until `context.stop` is cancelled, then returns within S - 250 ms. After that it is dropped at its next
    /// await, so what must not be cut in two runs in a task of its own. Every write shows `context.term`.
    ///
    /// # Errors
    /// An error, a panic, or a return that nobody asked for counts as a failure.
    async fn run(&self, context: Context) -> Result<(), WorkerError>;
}

/// What a running worker is given.
#[derive(Clone, Debug)]
pub struct Context {
    /// The term that it works under.
    pub term: Term,
    /// Cancelled when it must stop.
    pub stop: CancellationToken,
    /// Where it tells that it goes on.
    pub progress: Progress,
}

/// When a worker last got on.
#[derive(Clone, Debug)]
pub struct Progress {
    clock: Clock,
    made_at: Arc<AtomicU64>,
}

impl Progress {
    /// Progress is made now.
    pub fn new(clock: Clock) -> Self {
        let made_at = Arc::new(AtomicU64::new(clock.now().as_nanos()));
        Self { clock, made_at }
    }

    /// The worker got on: an event, a batch, a try. No I/O.
    pub fn made(&self) {
        self.made_at.store(self.clock.now().as_nanos(), Ordering::Relaxed);
    }

    /// When it last did.
    pub(crate) fn made_at(&self) -> Moment {
        Moment::from_nanos(self.made_at.load(Ordering::Relaxed))
    }
}

/// How a body ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned after it was asked to.
    Stopped,
    /// It did not stop in time and was dropped at an await.
    Killed,
    /// An error, a panic, or a return that nobody asked for.
    Failed(String),
}

/// A running body, as seen from outside.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    stop: CancellationToken,
    finished: CancellationToken,
    end: Arc<Mutex<Option<End>>>,
    abort: AbortHandle,
}

impl Body {
    /// Starts the worker under `term` and casts [`Message::Ended`] to `shell` once it has ended.
    fn start(start: Start, shell: ActorRef<Message>) -> Self {
        let Start { worker, term, shared, progress, meter } = start;
        let context = Context { term, stop: shared.stop.clone(), progress };
        let task = tokio::spawn(async move { worker.run(context).await });
        let body = Self {
            stop: shared.stop,
            finished: shared.finished,
            end: shared.end,
            abort: task.abort_handle(),
        };
        let outside = body.clone();
        tokio::spawn(async move {
            let asked = |stop: &CancellationToken| stop.is_cancelled();
            let end = match task.await {
                Ok(Ok(())) if asked(&outside.stop) => End::Stopped,
                Ok(Ok(())) => End::Failed("returned although nobody asked it to".into()),
                Ok(Err(error)) if asked(&outside.stop) => {
                    tracing::debug!(%error, "the worker failed while it stopped");
                    End::Stopped
                }
                Ok(Err(error)) => End::Failed(error.to_string()),
                Err(error) if error.is_panic() => End::Failed(panic_text(error.into_panic())),
                Err(_) => End::Killed,
            };
            *outside.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            outside.finished.cancel();
            meter.sending();
            // The shell may be gone already; the supervisor then hears of the end through `finished`.
            let _ = shell.cast(Message::Ended);
        });
        body
    }
}

fn panic_text(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.as_deref().unwrap_or("(no text)"))
}

/// What the supervisor keeps of a body before and after it exists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared {
    stop: CancellationToken,
    finished: CancellationToken,
    end: Arc<Mutex<Option<End>>>,
}

impl Shared {
    /// Waits until nothing of the body runs any more, then tells how it ended. Cancel-safe.
    pub(crate) async fn finished(&self) -> End {
        self.finished.cancelled().await;
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.clone().unwrap_or(End::Killed)
    }
}

/// The shell's mailbox.
#[derive(Debug)]
pub(crate) enum Message {
    /// Stop the body; kill it after the time.
    Stop(Duration),
    /// The time is over.
    Kill,
    /// The body has ended.
    Ended,
}

/// The actor that runs one worker for one term. Its end, of whatever kind, ends the body too.
pub(crate) struct Shell;

/// What a shell starts with.
pub(crate) struct Start {
    pub(crate) worker: Arc<dyn Worker>,
    pub(crate) term: Term,
    pub(crate) shared: Shared,
    pub(crate) progress: Progress,
    pub(crate) meter: Meter,
}

/// A shell's state. Dropped with the actor, however it ends: a body never outlives its shell by more than an await.
pub(crate) struct Running {
    body: Body,
    meter: Meter,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.body.stop.cancel();
        self.body.abort.abort();
    }
}

impl Actor for Shell {
    type Msg = Message;
    type State = Running;
    type Arguments = Start;

    async fn pre_start(
        &self,
        myself: ActorRef<Message>,
        start: Start,
    ) -> Result<Running, ActorProcessingErr> {
        let meter = start.meter.clone();
        Ok(Running { body: Body::start(start, myself), meter })
    }

    async fn handle(
        &self,
        myself: ActorRef<Message>,
        message: Message,
        running: &mut Running,
    ) -> Result<(), ActorProcessingErr> {
        let _handling = running.meter.handling();
        match message {
            Message::Stop(within) => {
                running.body.stop.cancel();
                let meter = running.meter.clone();
                myself.send_after(within, move || {
                    meter.sending();
                    Message::Kill
                });
            }
            Message::Kill => running.body.abort.abort(),
            Message::Ended => myself.stop(None),
        }
        Ok(())
    }
}
