//! A network namespace in which every address is this machine's, with name servers that lie, and a listener that counts who
//! is reached.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Path;
use serde_json::json;
use tokio::net::{TcpListener, UdpSocket};

use super::FORBIDDEN;

pub(super) const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(93, 184, 216, 34));
/// Leads to [`PUBLIC`] once, and to this machine ever after.
pub(super) const CHANGES: &str = "changes.rebind.dev";
/// Leads to both at once.
pub(super) const BOTH: &str = "both.rebind.dev";

/// The name that leads to an address of the table.
pub(super) fn name_of(at: usize) -> String {
    format!("n{at}.rebind.dev")
}

/// The DID whose document names that name as its handle and its PDS.
pub(super) fn hold(at: usize) -> String {
    let number: String = format!("{at:05b}").chars().map(|bit| if bit == '0' { 'a' } else { 'b' }).collect();
    format!("did:plc:{}{number}", "a".repeat(19))
}

pub(super) struct World {
    reached: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    directory: String,
}

impl World {
    pub(super) async fn start() -> Self {
        own_all_addresses();
        lead_look_ups_here();
        let names = UdpSocket::bind("127.0.0.1:53").await.unwrap();
        tokio::spawn(answer_look_ups(names));
        let reached = Arc::default();
        let listener = TcpListener::bind("[::]:443").await.unwrap();
        tokio::spawn(count(listener, Arc::clone(&reached)));
        let directory = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = directory.local_addr().unwrap();
        let documents = Router::new().route("/{did}", axum::routing::get(document));
        tokio::spawn(async move { axum::serve(directory, documents).await });
        Self { reached, directory: format!("http://{at}") }
    }

    /// The PLC directory.
    pub(super) fn directory(&self) -> String {
        self.directory.clone()
    }

    /// How often each address was connected to.
    pub(super) fn reached(&self) -> BTreeMap<IpAddr, usize> {
        self.reached.lock().unwrap().clone()
    }
}

async fn document(Path(did): Path<String>) -> String {
    let at = (0..FORBIDDEN.len()).find(|at| hold(*at) == did).unwrap();
    let name = name_of(at);
    let pds = json!({
        "id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": format!("https://{name}"),
    });
    json!({ "id": did, "alsoKnownAs": [format!("at://{name}")], "service": [pds] }).to_string()
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().unwrap_or_else(|e| panic!("{program}: {e}")).success()
}

/// Were they not this machine's, a connection that must not be made would fail by itself.
fn own_all_addresses() {
    assert!(run("ip", &["link", "set", "lo", "up"]));
    let mut own = 0;
    for address in FORBIDDEN.iter().map(|address| address.parse().unwrap()).chain([PUBLIC]) {
        own += usize::from(match address {
            IpAddr::V4(address) => run("ip", &["addr", "add", &format!("{address}/32"), "dev", "lo"]),
            IpAddr::V6(address) => {
                run("ip", &["addr", "add", &format!("{address}/128"), "dev", "lo", "nodad"])
            }
        });
    }
    // Some kinds of address belong to nobody: multicast, broadcast, none at all; those of loopback it has.
    assert!(own > 20, "only {own} addresses");
}

fn lead_look_ups_here() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
    let (_, path) = file.keep().unwrap();
    assert!(run("mount", &["--bind", path.to_str().unwrap(), "/etc/resolv.conf"]));
    std::fs::remove_file(path).unwrap();
}

async fn count(listener: TcpListener, reached: Arc<Mutex<BTreeMap<IpAddr, usize>>>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let address = stream.local_addr().unwrap().ip().to_canonical();
        *reached.lock().unwrap().entry(address).or_default() += 1;
    }
}

async fn answer_look_ups(socket: UdpSocket) {
    let mut buffer = [0; 512];
    loop {
        let (len, from) = socket.recv_from(&mut buffer).await.unwrap();
        if let Some(answer) = answer(&buffer[..len]) {
            socket.send_to(&answer, from).await.unwrap();
        }
    }
}

/// One question, and every address that there is for it (RFC 1035 section 4).
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let (mut name, mut at) = (Vec::new(), 12);
    while *query.get(at)? != 0 {
        let len = usize::from(query[at]);
        name.push(String::from_utf8_lossy(query.get(at + 1..=at + len)?).to_ascii_lowercase());
        at += len + 1;
    }
    let kind = u16::from_be_bytes([*query.get(at + 1)?, *query.get(at + 2)?]);
    let question = query.get(12..at + 5)?;
    let addresses = addresses(&name.join("."), kind);
    let count = u8::try_from(addresses.len()).ok()?;
    let mut answer = vec![query[0], query[1], 0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0];
    answer.extend_from_slice(question);
    for address in addresses {
        let bytes = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        // The name of the question, this kind, the Internet, for no time at all.
        answer.extend([0xc0, 12, kind.to_be_bytes()[0], kind.to_be_bytes()[1], 0, 1, 0, 0, 0, 0]);
        answer.extend([0, u8::try_from(bytes.len()).ok()?]);
        answer.extend(bytes);
    }
    Some(answer)
}

fn addresses(name: &str, kind: u16) -> Vec<IpAddr> {
    const A: u16 = 1;
    const AAAA: u16 = 28;
    static CHANGED: AtomicBool = AtomicBool::new(false);
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let all = match name {
        CHANGES if kind != A => vec![],
        CHANGES if CHANGED.swap(true, Ordering::SeqCst) => vec![here],
        CHANGES => vec![PUBLIC],
        BOTH => vec![here, PUBLIC, IpAddr::V6(Ipv6Addr::LOCALHOST)],
        _ => {
            let at = (0..FORBIDDEN.len()).find(|at| name_of(*at) == name);
            at.map(|at| FORBIDDEN[at].parse().unwrap()).into_iter().collect()
        }
    };
    all.into_iter()
        .filter(|address| matches!((address, kind), (IpAddr::V4(_), A) | (IpAddr::V6(_), AAAA)))
        .collect()
}
