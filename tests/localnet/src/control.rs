//! The network's changes and faults over HTTP, for people and for programs that are not written in Rust.
//!
//! `GET /_control/stats`, `GET /_control/webhooks` (the newest thousand that came), and `POST /_control/COMMAND` with the fields of the [`Command`] as a JSON object, such as
//! `curl -d '{"mode":"silent"}' http://127.0.0.1:PORT/_control/mode`. A `jetstream` left out is number 0.

mod billing;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Jetstream;
use crate::Net;
use crate::http::{self, Answer, Listener, Request};
use crate::jetstream::{Compressed, Door, FutureCursor, Limit, Mode, Raw};
use crate::labeler::{Flaw, Label, Labeler, LabelerDoor, LabelerMode};
use crate::network::{Ending, Fault, Made, On, Rate, Site};
use crate::webhooks::Behaviour;

/// What can be asked for. Names on the wire are in kebab-case.
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
#[allow(missing_docs, reason = "each names a method of Net or Jetstream, which has the documentation")]
pub enum Command {
    AddAccount { name: String },
    Put { did: String, collection: String, rkey: String, record: Value },
    Delete { did: String, collection: String, rkey: String },
    SetAccount { did: String, active: bool, status: Option<String> },
    ChangeHandle { did: String, handle: String },
    Identity { did: String },
    Sync { did: String },
    Fault { on: On, fault: Fault },
    ClearFaults {},
    Rate { on: On, rate: Rate },
    ClearRates {},
    Ending { site: Site, ending: Ending },
    PutUnseen { did: String, collection: String, rkey: String, record: Value },
    DeleteUnseen { did: String, collection: String, rkey: String },
    Move { did: String, pds: usize },
    Tombstone { did: String },
    Throttle { did: String, on: bool },
    Crawl {},
    MakeAccounts { accounts: usize, records: usize },
    Cut { jetstream: Option<usize> },
    Mode { jetstream: Option<usize>, mode: Mode },
    Door { jetstream: Option<usize>, door: Door, times: usize },
    Limit { jetstream: Option<usize>, limit: Option<Limit> },
    Reorder { jetstream: Option<usize>, window: usize },
    ReplayLast { jetstream: Option<usize>, count: usize },
    ReplaySince { jetstream: Option<usize>, seconds: u64 },
    RewindCursors { jetstream: Option<usize>, seconds: u64 },
    Forget { jetstream: Option<usize>, keep: usize },
    WithholdCommits { jetstream: Option<usize>, on: bool },
    ResetSequencer { jetstream: Option<usize> },
    FutureCursor { jetstream: Option<usize>, what: FutureCursor },
    Dictionary { jetstream: Option<usize>, id: u32 },
    Compressed { jetstream: Option<usize>, how: Compressed },
    SendInfo { jetstream: Option<usize>, name: String, message: String },
    SendError { jetstream: Option<usize>, name: String, message: String },
    SendText { jetstream: Option<usize>, text: String },
    SendPartial { jetstream: Option<usize>, text: String },
    SendClose { jetstream: Option<usize>, code: u16 },
    Label(Label),
    LabelBadly { uri: String, val: String, flaw: Flaw },
    LabelerMode { mode: LabelerMode },
    LabelerDoor { door: LabelerDoor },
    LabelerList { on: bool },
    LabelerForget { keep: u64 },
    LabelerReset { lost: usize },
    LabelerKey { number: u8, publish: bool },
    LabelerCut {},
    LabelerError { name: String },
    WebhookBehave { path: String, behaviour: Behaviour },
    WebhookScript { path: String, answers: Vec<Behaviour> },
    WebhookReset {},
}

/// Webhooks that one answer lists.
const WEBHOOKS_LISTED: usize = 1_000;

/// A running control server. Dropping it ends it; the network lives on.
#[derive(Debug)]
pub struct Control {
    listener: Listener,
}

impl Control {
    /// Starts on 127.0.0.1 (`port` 0: any free one).
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(net: Arc<Net>, port: u16) -> io::Result<Self> {
        let serve = move |stream| {
            let net = Arc::clone(&net);
            http::serve(stream, move |request| (respond(&net, request), ()))
        };
        Ok(Self { listener: Listener::start(port, serve).await? })
    }

    /// `http://127.0.0.1:PORT/_control`
    pub fn url(&self) -> String {
        format!("http://{}/_control", self.listener.address())
    }
}

fn respond(net: &Net, request: &Request) -> Answer {
    match (request.method.as_str(), request.path.strip_prefix("/_control/")) {
        ("GET", Some("stats")) => Answer::json(200, &stats(net)),
        ("GET", Some("webhooks")) => Answer::json(200, &net.webhooks().listing(WEBHOOKS_LISTED)),
        ("POST", Some(command)) => fields(command, &request.body)
            .and_then(|fields| match billing::obey(net, command, &fields) {
                Some(outcome) => outcome.map(|outcome| Answer::json(200, &outcome)),
                None => read(fields)
                    .and_then(|command| possible(net, command))
                    .and_then(|command| obey(net, command)),
            })
            .unwrap_or_else(|message| Answer::error(400, "InvalidRequest", &message)),
        _ => Answer::text(
            404,
            "GET /_control/stats, GET /_control/webhooks, or POST /_control/COMMAND with a JSON object\n",
        ),
    }
}

fn stats(net: &Net) -> Value {
    let requests = net.request_counts().into_iter();
    let requests = requests.map(|((site, host, path), count)| json!([site, host, path, count]));
    json!({
        "labeler": net.labeler().stats(),
        "jetstreams": net.jetstreams().iter().map(|j| json!(j.stats())).collect::<Vec<_>>(),
        "requests": requests.collect::<Vec<_>>(),
        "most_at_once": net.most_at_once(&On::any()),
        "too_early": net.too_early(Duration::ZERO),
    })
}

fn fields(command: &str, body: &[u8]) -> Result<Map<String, Value>, String> {
    let fields = if body.is_empty() { Ok(Map::new()) } else { serde_json::from_slice(body) };
    let mut fields = fields.map_err(|error| error.to_string())?;
    fields.insert("command".to_owned(), command.into());
    Ok(fields)
}

fn read(fields: Map<String, Value>) -> Result<Command, String> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())
}

/// The account that has to be there.
fn of_account(command: &Command) -> Option<&str> {
    match command {
        Command::Put { did, .. }
        | Command::PutUnseen { did, .. }
        | Command::Delete { did, .. }
        | Command::DeleteUnseen { did, .. }
        | Command::SetAccount { did, .. }
        | Command::ChangeHandle { did, .. }
        | Command::Move { did, .. }
        | Command::Tombstone { did }
        | Command::Throttle { did, .. } => Some(did),
        _ => None,
    }
}

/// The command, if the account is there that it is about.
fn possible(net: &Net, command: Command) -> Result<Command, String> {
    match of_account(&command).filter(|did| net.account(did).is_none()) {
        Some(did) => Err(format!("there is no account {did}")),
        None => Ok(command),
    }
}

fn obey(net: &Net, command: Command) -> Result<Answer, String> {
    let of = |number: Option<usize>| jetstream_of(net, number.unwrap_or(0));
    let mut result = json!({ "done": true });
    match command {
        Command::AddAccount { name } => result = json!({ "did": net.add_account(&name) }),
        Command::Put { did, collection, rkey, record } => {
            result = json!(net.put(&did, &collection, &rkey, record));
        }
        Command::Delete { did, collection, rkey } => {
            result = json!({ "rev": net.delete(&did, &collection, &rkey) });
        }
        Command::SetAccount { did, active, status } => net.set_account(&did, active, status.as_deref()),
        Command::ChangeHandle { did, handle } => net.change_handle(&did, &handle),
        Command::Identity { did } => net.identity_event(&did),
        Command::Sync { did } => net.sync_event(&did),
        Command::Fault { on, fault } => net.set_fault(on, fault),
        Command::ClearFaults {} => net.clear_faults(),
        Command::Rate { on, rate } => net.set_rate(on, rate),
        Command::ClearRates {} => net.clear_rates(),
        Command::Ending { site, ending } => net.set_ending(site, ending),
        Command::PutUnseen { did, collection, rkey, record } => {
            result = json!(net.put_unseen(&did, &collection, &rkey, record));
        }
        Command::DeleteUnseen { did, collection, rkey } => {
            result = json!({ "rev": net.delete_unseen(&did, &collection, &rkey) });
        }
        Command::Move { did, pds } => {
            if pds >= net.pds_count() {
                return Err(format!("there is no PDS {pds}"));
            }
            net.move_account(&did, pds);
        }
        Command::Tombstone { did } => net.tombstone(&did),
        Command::Throttle { did, on } => net.throttle(&did, on),
        Command::Crawl {} => net.crawl(),
        Command::MakeAccounts { accounts, records } => {
            result = json!({ "made": net.add_made_accounts(accounts, Made::records(records)).len() });
        }
        Command::WebhookBehave { path, behaviour } => net.webhooks().behave(&path, behaviour),
        Command::WebhookScript { path, answers } => net.webhooks().script(&path, answers),
        Command::WebhookReset {} => net.webhooks().reset(),
        Command::Cut { jetstream } => of(jetstream)?.cut(),
        Command::Mode { jetstream, mode } => of(jetstream)?.set_mode(mode),
        Command::Door { jetstream, door, times } => of(jetstream)?.set_door(door, times),
        Command::Limit { jetstream, limit } => of(jetstream)?.set_limit(limit),
        Command::Reorder { jetstream, window } => of(jetstream)?.reorder(window),
        Command::ReplayLast { jetstream, count } => of(jetstream)?.replay_last(count),
        Command::ReplaySince { jetstream, seconds } => {
            of(jetstream)?.replay_since(Duration::from_secs(seconds))
        }
        Command::RewindCursors { jetstream, seconds } => {
            of(jetstream)?.rewind_cursors(Duration::from_secs(seconds));
        }
        Command::Forget { jetstream, keep } => of(jetstream)?.forget(keep),
        Command::WithholdCommits { jetstream, on } => of(jetstream)?.withhold_commits(on),
        Command::ResetSequencer { jetstream } => of(jetstream)?.reset_sequencer(),
        Command::FutureCursor { jetstream, what } => of(jetstream)?.set_future_cursor(what),
        Command::Dictionary { jetstream, id } => of(jetstream)?.set_dictionary(id),
        Command::Compressed { jetstream, how } => of(jetstream)?.set_compressed(how),
        Command::SendInfo { jetstream, name, message } => of(jetstream)?.send_info(&name, &message),
        Command::SendError { jetstream, name, message } => of(jetstream)?.send_error(&name, &message),
        Command::SendText { jetstream, text } => of(jetstream)?.send_raw(Raw::Text(text.into())),
        Command::SendPartial { jetstream, text } => of(jetstream)?.send_raw(Raw::Partial(text.into())),
        Command::SendClose { jetstream, code } => of(jetstream)?.send_raw(Raw::Close(code)),
        of_labeler => result = obey_labeler(net.labeler(), of_labeler),
    }
    Ok(Answer::json(200, &result))
}

fn jetstream_of(net: &Net, number: usize) -> Result<&Jetstream, String> {
    net.jetstreams().get(number).ok_or_else(|| format!("there is no Jetstream {number}"))
}

fn obey_labeler(labeler: &Labeler, command: Command) -> Value {
    match command {
        Command::Label(label) => return json!({ "seq": labeler.say_label(label) }),
        Command::LabelBadly { uri, val, flaw } => {
            return json!({ "seq": labeler.say_badly(Label::of(&uri, &val), flaw) });
        }
        Command::LabelerMode { mode } => labeler.set_mode(mode),
        Command::LabelerDoor { door } => labeler.set_door(door),
        Command::LabelerList { on } => labeler.set_list(on),
        Command::LabelerForget { keep } => labeler.forget(keep),
        Command::LabelerReset { lost } => labeler.reset_sequencer(lost),
        Command::LabelerKey { number, publish } => labeler.rotate_key(number, publish),
        Command::LabelerCut {} => labeler.cut(),
        Command::LabelerError { name } => labeler.send_error(&name),
        _ => unreachable!("every other command is another's"),
    }
    json!({ "done": true })
}
