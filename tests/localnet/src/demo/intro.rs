//! Where the demonstration happens, and what a newcomer is told about it.

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use localnet::Net;
use localnet::control::Control;

use super::child::Child;

/// Program, directory, addresses.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) binary: PathBuf,
    pub(super) directory: PathBuf,
    /// What both instances and the command line need.
    shared: Vec<(&'static str, String)>,
    admins: [SocketAddr; 2],
    network: String,
    control: String,
}

impl Place {
    pub(super) fn new(net: &Net, control: &Control, binary: PathBuf, directory: &Path) -> io::Result<Self> {
        let database = directory.join("atcr.db");
        let streams: Vec<_> = net.jetstreams().iter().map(|j| j.url()).collect();
        let shared = vec![
            ("ATCR__DATABASE__URL", format!("sqlite://{}", database.display())),
            ("ATCR__NETWORK__ALLOW_LOOPBACK", "true".to_owned()),
            ("ATCR__NETWORK__TEST_HOSTS", net.test_hosts().to_string()),
            ("ATCR__IDENTITY__PLC_URL", net.plc_url()),
            ("ATCR__JETSTREAM__URLS", streams.join(",")),
            // The public ones are not to be asked about made-up accounts.
            ("ATCR__BACKFILL__RELAY_URLS", net.relay_urls().join(",")),
        ];
        let network = format!(
            "  event stream   {}\n  directory      {}\n  PDS            {}\n  relay          {}\n",
            streams.join(" "),
            net.plc_url(),
            net.pds_url(),
            net.relay_urls().join(" ")
        );
        let (directory, control) = (directory.to_owned(), control.url());
        Ok(Self { binary, directory, shared, admins: free_addresses()?, network, control })
    }

    pub(super) fn instances(&self) -> [(&'static str, SocketAddr); 2] {
        [("one", self.admins[0]), ("two", self.admins[1])]
    }

    /// The environment of an instance.
    pub(super) fn environment(&self, label: &str, admin: SocketAddr) -> Vec<(&'static str, String)> {
        let mut all = self.shared.clone();
        all.push(("ATCR__INSTANCE__LABEL", label.to_owned()));
        // Chosen here, so that the addresses printed are right whoever starts first.
        all.push(("ATCR__ADMIN__LISTEN", admin.to_string()));
        // The log goes through a pipe, but to a person.
        all.push(("ATCR__TELEMETRY__FORMAT", "pretty".to_owned()));
        all
    }

    pub(super) fn explain(&self, children: &[Child]) -> String {
        let mut text = String::from(
            "\nA network in small is running on this machine, offline, with made-up accounts, images and stars.\n\
             Two instances of atcr-workers follow it. They share one database, and each kind of work is done by\n\
             one of them at a time: whoever holds its lease. Who starts first may have all of it; within seconds\n\
             they share it.\n\n",
        );
        for Child { label, pid, admin, .. } in children {
            let _ = writeln!(text, "  instance [{label}]  pid {pid:<8} http://{admin}/");
        }
        text += &self.network;
        let _ = writeln!(text, "  database       {}\n", self.directory.join("atcr.db").display());
        text += "Try, in a second terminal:\n\n";
        if let Some(Child { pid, admin, .. }) = children.first() {
            let _ =
                writeln!(text, "  kill {pid}         stops one in good order: the other takes over at once");
            let _ = writeln!(text, "  kill -9 {pid}      no good-bye: the other notices and takes over, too");
            let _ = writeln!(text, "  curl http://{admin}/metrics");
        }
        let _ =
            writeln!(text, "  curl -d '{{}}' {}/cut     cuts the event stream: it is resumed", self.control);
        let _ = writeln!(text, "\nWho holds what:\n\n  {}\n", self.leases_command());
        text += "Ctrl-C here stops both and removes the database. Their logs follow.\n";
        text
    }

    fn leases_command(&self) -> String {
        let database = self.shared.iter().find(|(name, _)| *name == "ATCR__DATABASE__URL");
        let environment = database.map_or_else(String::new, |(name, value)| format!("{name}='{value}' "));
        format!("{environment}'{}' leases", self.binary.display())
    }
}

/// Two ports that are free now. Both are held until both are known, or they could be the same.
fn free_addresses() -> io::Result<[SocketAddr; 2]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (one, two) = (bind()?, bind()?);
    Ok([one.local_addr()?, two.local_addr()?])
}
