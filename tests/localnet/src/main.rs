//! `localnet`: the network in small as a program, for demonstrations and for clients of others.

mod demo;
mod serve;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The network in small, on 127.0.0.1 only.
#[derive(Debug, Parser)]
enum Arguments {
    /// Starts the network with seeded accounts, prints its addresses as one line of JSON, and serves until a signal.
    Serve(serve::Arguments),
    /// Starts the network and two instances of atcr-workers on it, and says what to try.
    Demo(demo::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Arguments::parse() {
        Arguments::Serve(arguments) => serve::run(arguments).await,
        Arguments::Demo(arguments) => demo::run(arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("localnet: {error}");
            ExitCode::FAILURE
        }
    }
}

/// SIGINT and SIGTERM, which mean the same here.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one. Cancel-safe.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
