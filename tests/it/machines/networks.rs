//! Networks that lack something: a free port, IPv6, name servers, certificates.

use std::{fs, net::TcpListener};

use rustix::process::Signal;

use super::{Started, says};
use crate::support::{
    machine::{among_own_mounts, in_own_network, open_folder},
    place::Kind,
    ports,
    process::Exit,
    stage::{PATIENCE, Stage, until_in},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_default_port_if_it_is_taken_is_left_for_the_next_free_one() {
    // Taken by us, or by somebody else before.
    let _first = TcpListener::bind("127.0.0.1:9464");
    let stage = Stage::new(Kind::Sqlite).await.with("ATCR__ADMIN__LISTEN", "auto");
    let instances = ["one", "two"].map(|label| stage.start(label));
    let ports = instances.each_ref().map(|instance| {
        let address = instance.admin_address();
        address.strip_prefix("127.0.0.1:").unwrap().parse::<u16>().unwrap()
    });
    assert!(ports.iter().all(|port| (9465..=9479).contains(port)) && ports[0] != ports[1], "{ports:?}");
}

#[test]
fn without_ipv6_it_runs_and_an_address_that_needs_it_is_named() {
    let what = "a machine without IPv6";
    let script = "ip link set lo up\necho 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6";
    let Some(through) = in_own_network(what, script) else { return };
    let folder = open_folder();
    let url = format!("sqlite://{}/atcr.db", folder.path().display());
    let listen = [("ATCR__ADMIN__LISTEN", "[::1]:9464")];
    let end = Started::new(&through, &["run"], &url).with(listen).end();
    says(end, 1, &["admin.listen", "[::1]:9464", "choose another"]);
    let mut instance = Started::new(&through, &["run"], &url).start();
    instance.wait_for_line("it is registered", PATIENCE, |line| line.contains("registered"));
    assert!(instance.admin_address().starts_with("127.0.0.1:"));
    instance.signal(Signal::TERM);
    assert_eq!(instance.wait_exit(PATIENCE), Exit::Code(0));
}

/// As in an `/etc/hosts` of a distribution: the first of a name's addresses is of IPv6, where nobody listens.
#[tokio::test(flavor = "multi_thread")]
async fn a_host_with_an_address_that_does_not_answer_is_reached_by_its_other_one() {
    let folder = open_folder();
    let hosts = folder.path().join("hosts");
    fs::write(&hosts, "::1 localhost\n127.0.0.1 localhost\n").unwrap();
    let script = format!("mount --bind {} /etc/hosts", hosts.display());
    let Some(through) = among_own_mounts("a name with two addresses", &script) else { return };
    let stage = Stage::new(Kind::Sqlite).await;
    let stream = stage.net.jetstream(0).url().replace("127.0.0.1", "localhost");
    assert!(stream.contains("localhost"), "{stream}");
    let stage = stage.with("ATCR__JETSTREAM__URLS", &stream);
    let environment = stage.environment("two addresses");
    let instance = Started::new(&through, &["run"], stage.place.url()).with(environment).start();
    until_in(&instance, "running");
    assert!(stage.net.jetstream(0).subscribed(1, PATIENCE).await);
    stage.changes(1, 20);
    stage.caught_up().await;

    // And where there is only the one that does not answer, it is said of whom.
    fs::write(&hosts, "::1 localhost\n").unwrap();
    let port = ports::free_block(1);
    let url = format!("postgres://me:secret@localhost:{port}/atcr");
    let end = Started::new(&through, &["run"], &url).end();
    says(end, 1, &["open the database", "me@localhost", "refused", "is the server up"]);
}

#[test]
fn a_machine_without_name_servers_is_told_which_file_lacks_them() {
    let folder = open_folder();
    let url = format!("sqlite://{}/atcr.db", folder.path().display());
    for script in ["mount --bind /dev/null /etc/resolv.conf", "mount -t tmpfs atcr-it /etc"] {
        let Some(through) = among_own_mounts("a machine without name servers", script) else { return };
        let end = Started::new(&through, &["run"], &url).with([("ATCR__BACKFILL__ENABLED", "true")]).end();
        says(end, 1, &["name servers", "/etc/resolv.conf", "nameserver"]);
    }
}

#[test]
fn a_machine_without_certificate_authorities_is_told_at_the_start() {
    let folder = open_folder();
    let url = format!("sqlite://{}/atcr.db", folder.path().display());
    let none = [("SSL_CERT_FILE", "/nowhere/file"), ("SSL_CERT_DIR", "/nowhere")];
    let instance = Started::new(&[], &["run"], &url).with(none).start();
    instance.wait_for_line("it says so", PATIENCE, |line| {
        line.contains("certificate authorities") && line.contains("SSL_CERT_FILE")
    });
    instance.wait_for_line("it goes on", PATIENCE, |line| line.contains("registered"));
}
