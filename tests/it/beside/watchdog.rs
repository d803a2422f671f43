//! The service manager's watchdog: fed for as long as the supervisor takes messages, and no longer. It is for a process
//! that lives, answers its sockets perhaps, and does no work: nobody else would ever end it.
//!
//! Each test runs itself again in a process of its own, in which something gets stuck on command.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixDatagram,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use atcr_workers::service;
use leased_actors::{
    clock::Clock,
    lease::{Effects, LeaseName, ProcessId, timing::Timing},
    memory::MemoryStore,
    supervisor::{self, Setup},
    worker::{Context, Worker, WorkerError},
};
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;

use crate::support::{eventually::eventually, stage::PATIENCE};

/// Set for the process that runs the test's inner half.
const INSIDE: &str = "ATCR_TEST_INSIDE";

/// The manager's limit in these tests; it is fed three times within it.
const WITHIN: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_supervisor_that_hangs_is_fed_no_more_though_its_process_lives() {
    if is_outside("a_supervisor_that_hangs_is_fed_no_more_though_its_process_lives", &|told| told.stick()) {
        return;
    }
    let hangs = Arc::new(AtomicBool::new(false));
    let _supervision = begin(&hangs).await;
    until_told().await;
    // The worker's next start runs its code in the supervisor.
    hangs.store(true, Ordering::SeqCst);
    eventually("the process lives on", PATIENCE, async || Err::<(), _>("it is killed first")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_whose_threads_all_hang_is_fed_no_more() {
    if is_outside("a_runtime_whose_threads_all_hang_is_fed_no_more", &|told| told.stick()) {
        return;
    }
    let _supervision = begin(&Arc::new(AtomicBool::new(false))).await;
    until_told().await;
    (0..2).for_each(|_| drop(tokio::spawn(async { hang() })));
    hang()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_stopped_is_fed_no_more_and_again_when_it_goes_on() {
    let name = "a_process_that_is_stopped_is_fed_no_more_and_again_when_it_goes_on";
    let stopped = |told: &mut Told| told.signal(Signal::STOP);
    if is_outside(name, &stopped) {
        return;
    }
    let _supervision = begin(&Arc::new(AtomicBool::new(false))).await;
    until_told().await;
}

/// A worker that fails each 50 ms, and whose code, which the supervisor runs to start it, may hang.
struct Failing(Arc<AtomicBool>);

#[async_trait::async_trait]
impl Worker for Failing {
    fn name(&self) -> LeaseName {
        "failing".parse().unwrap()
    }

    fn effects(&self) -> Effects {
        Effects::Fenced
    }

    fn progress_within(&self) -> Option<Duration> {
        if self.0.load(Ordering::SeqCst) {
            hang();
        }
        None
    }

    async fn run(&self, context: Context) -> Result<(), WorkerError> {
        let _ = tokio::time::timeout(Duration::from_millis(50), context.stop.cancelled()).await;
        Err("it fails".into())
    }
}

/// Says that it does, and never returns.
fn hang() -> ! {
    println!("hangs");
    loop {
        std::thread::park();
    }
}

/// A supervisor, and what `app` lets run beside it.
async fn begin(hangs: &Arc<AtomicBool>) -> supervisor::Supervision {
    let clock = Clock::boottime();
    let setup = Setup {
        process: ProcessId::new(),
        label: "inside".into(),
        host: "host".into(),
        admin_address: None,
        timing: Timing::SQLITE,
        clock: clock.clone(),
        on_overdue: Arc::new(|term| panic!("overdue: {term}")),
    };
    let workers: Vec<Arc<dyn Worker>> = vec![Arc::new(Failing(hangs.clone()))];
    let supervision = supervisor::start(setup, Arc::new(MemoryStore::new(clock)), workers).await.unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(service::report(supervision.pulse(), supervision.snapshot(), stop));
    supervision
}

/// Waits until the outer half says so.
async fn until_told() {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        std::io::stdin().read_line(&mut String::new()).unwrap();
        tell.send(()).unwrap();
    });
    told.await.unwrap();
}

/// The inner half, as its service manager sees it.
struct Told {
    child: Child,
    socket: UnixDatagram,
}

/// Runs the test `name` in a process of its own, sees it fed, has it `stick`, and sees it fed no more; false in that
/// process.
fn is_outside(name: &str, stick: &dyn Fn(&mut Told)) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("beside::watchdog::{name}"), "--nocapture"])
        .env(INSIDE, "1")
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", WITHIN.as_micros().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = Told { child, socket };
    (0..5).for_each(|_| assert!(told.is_fed(PATIENCE), "a healthy one is fed"));
    stick(&mut told);
    told.is_fed_no_more();
    told.signal(Signal::CONT);
    if name.contains("goes_on") {
        (0..5).for_each(|_| assert!(told.is_fed(PATIENCE), "it is fed again"));
    }
    true
}

impl Told {
    /// Tells it to get stuck, and waits until it says that it is.
    fn stick(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"stick\n").unwrap();
        let mut lines = BufReader::new(self.child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("hangs")), "it ended instead");
    }

    fn signal(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Whether a feeding comes within so long.
    fn is_fed(&self, within: Duration) -> bool {
        self.socket.set_read_timeout(Some(within)).unwrap();
        let mut some = [0; 512];
        while let Ok(len) = self.socket.recv(&mut some) {
            if String::from_utf8_lossy(&some[..len]).contains("WATCHDOG=1") {
                return true;
            }
        }
        false
    }

    /// What was on its way may still come. Then nothing, for much longer than the manager's limit; and it lives.
    fn is_fed_no_more(&mut self) {
        let since = Instant::now();
        while self.is_fed(WITHIN * 6) {
            assert!(since.elapsed() < PATIENCE / 2, "it is still fed");
        }
        assert_eq!(self.child.try_wait().unwrap(), None, "it lives, and hangs");
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
