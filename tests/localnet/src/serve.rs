//! `localnet serve`

use std::io;
use std::sync::Arc;

use localnet::control::Control;
use localnet::jetstream::JetstreamOptions;
use localnet::network::Made;
use localnet::seed::{self, Size};
use localnet::traffic::Traffic;
use localnet::{Net, NetOptions};
use serde_json::json;

use crate::Signals;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Control, PLC directory, *.test hosts, PDSes, Jetstreams, relays, the labeler, the webhooks' receiver and Stripe take
    /// consecutive ports from here; 0: any free ones.
    #[arg(long, default_value_t = 0)]
    port_base: u16,
    /// Number of Jetstream servers. Each speaks both wires: /subscribe, and
    /// /xrpc/network.bsky.jetstream.subscribeEvents.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    jetstreams: u8,
    /// Number of PDSes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pdses: u8,
    /// PDSes go by names (pdsN.test) instead of ports, so that each is a host of its own.
    #[arg(long)]
    named_pdses: bool,
    /// Number of relays.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=16))]
    relays: u8,
    /// So many accounts more, whose records are made up on request.
    #[arg(long, default_value_t = 0)]
    made_accounts: usize,
    /// Records of each of those.
    #[arg(long, default_value_t = 20)]
    made_records: usize,
    /// Changes per second that keep flowing.
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// DIDs, records and traffic follow from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) async fn run(arguments: Arguments) -> io::Result<()> {
    let mut signals = Signals::listen()?;
    let port_base = arguments.port_base;
    let jetstreams = vec![JetstreamOptions::default(); usize::from(arguments.jetstreams)];
    let options = NetOptions {
        seed: arguments.seed,
        jetstreams,
        pdses: arguments.pdses.into(),
        named_pdses: arguments.named_pdses,
        relays: arguments.relays.into(),
        port_base: port_base.saturating_add(u16::from(port_base != 0)),
    };
    let net = Arc::new(Net::start(options).await?);
    let control = Control::start(Arc::clone(&net), port_base).await?;
    let seeded = seed::seed(&net, Size::default(), arguments.seed);
    net.add_made_accounts(arguments.made_accounts, Made::records(arguments.made_records));
    let addresses = json!({
        "pid": std::process::id(),
        "jetstreams": net.jetstreams().iter().map(|j| j.url()).collect::<Vec<_>>(),
        "jetstreams_v2": net.jetstreams().iter().map(|j| j.url_v2()).collect::<Vec<_>>(),
        "plc": net.plc_url(), "pds": net.pds_url(), "test_hosts": net.test_hosts(),
        "relays": net.relay_urls(), "control": control.url(),
        "labeler": net.labeler().did(), "webhooks": net.webhooks().url(), "stripe": net.stripe_url(),
        "users": seeded.users, "hold": seeded.hold,
    });
    println!("{addresses}");
    let mut traffic = Traffic::new(&seeded, arguments.seed, 0.1);
    tokio::select! {
        () = signals.next() => Ok(()),
        () = traffic.run(&net, arguments.rate) => Ok(()),
    }
}
