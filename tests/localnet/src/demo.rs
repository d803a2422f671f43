//! `localnet demo`: two instances on one database and a network that keeps moving, explained to a newcomer.

mod binary;
mod child;
mod intro;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use localnet::control::Control;
use localnet::seed::{self, Size};
use localnet::traffic::Traffic;
use localnet::{Net, NetOptions};

use crate::Signals;
use child::Child;
use intro::Place;

/// Share of traffic that is about accounts which nobody here knows, as on the real network.
const NOISE: f64 = 0.2;
/// From SIGTERM to SIGKILL: longer than an instance takes to hand over, short enough to wait for at a keyboard.
const STOP_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The atcr-workers program; otherwise the one beside this program, built if missing.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Stop by itself after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Changes per second on the network.
    #[arg(long, default_value_t = 5.0)]
    rate: f64,
}

pub(crate) async fn run(arguments: Arguments) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    let binary = match arguments.binary {
        Some(path) => path,
        None => binary::find_or_build().await?,
    };
    let net = Arc::new(Net::start(NetOptions::default()).await?);
    let control = Control::start(Arc::clone(&net), 0).await?;
    let seeded = seed::seed(&net, Size::default(), 1);
    // Removed when it goes out of scope, after the children are gone.
    let directory = tempfile::Builder::new().prefix("atcr-demo-").tempdir()?;
    let place = Place::new(&net, &control, binary, directory.path())?;
    let mut children = Vec::new();
    for (label, admin) in place.instances() {
        children.push(Child::start(&place, label, admin)?);
    }
    println!("{}", place.explain(&children));
    children.iter_mut().for_each(Child::pass_output_through);
    watch(&mut children, &mut signals, arguments.seconds, async {
        let mut traffic = Traffic::new(&seeded, 1, NOISE);
        traffic.run(&net, arguments.rate).await;
    })
    .await?;
    stop(children, &mut signals).await;
    directory.close()
}

/// Until a signal, the time is over, or the last instance has ended. Says so when one ends.
async fn watch(
    children: &mut Vec<Child>,
    signals: &mut Signals,
    seconds: Option<u64>,
    traffic: impl Future<Output = ()>,
) -> io::Result<()> {
    let over = async {
        match seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over, traffic);
    while !children.is_empty() {
        tokio::select! {
            () = signals.next() => return Ok(()),
            () = &mut over => return Ok(()),
            () = &mut traffic => return Ok(()),
            (number, status) = child::first_exit(children) => {
                let mut gone = children.remove(number);
                gone.finish_output().await;
                let rest: Vec<_> = children.iter().map(|c| format!("[{}]", c.label)).collect();
                let rest = if rest.is_empty() { "nothing is left".to_owned() } else { format!("{} goes on", rest.join(" ")) };
                println!("demo: [{}] ended by itself: {}; {rest}", gone.label, child::describe(status?));
            }
        }
    }
    Ok(())
}

/// SIGTERM to all, then waits for each; a second signal or the limit kills the rest.
async fn stop(mut children: Vec<Child>, signals: &mut Signals) {
    for child in &children {
        child.terminate();
        println!("demo: asked [{}] (pid {}) to stop", child.label, child.pid);
    }
    let deadline = tokio::time::Instant::now() + STOP_LIMIT;
    while !children.is_empty() {
        tokio::select! {
            (number, status) = child::first_exit(&mut children) => {
                let mut gone = children.remove(number);
                gone.finish_output().await;
                match status {
                    Ok(status) => println!("demo: [{}] stopped: {}", gone.label, child::describe(status)),
                    Err(error) => println!("demo: [{}] cannot be waited for: {error}", gone.label),
                }
            }
            () = signals.next() => kill(&mut children).await,
            () = tokio::time::sleep_until(deadline) => kill(&mut children).await,
        }
    }
}

async fn kill(children: &mut Vec<Child>) {
    for mut child in children.drain(..) {
        println!("demo: [{}] did not stop in time and is killed", child.label);
        child.kill().await;
    }
}
