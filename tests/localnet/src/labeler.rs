//! A labeler: signs what it is told to say, streams it, lists it, and fails on command. It is a `did:web` of its own port and
//! serves its own document.

mod serve;
pub(crate) mod sign;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k256::ecdsa::SigningKey;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::http::Listener;
use crate::{ids, lock};

pub use sign::Label;

/// How the stream behaves, for connections that stand and those to come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelerMode {
    /// As it should.
    #[default]
    Normal,
    /// Answers pings and sends nothing: what is said comes once it is normal again.
    Silent,
    /// Leaves out what is said in the meantime; it is there for whoever connects later, and in the list.
    Lossy,
}

/// What meets who wants to subscribe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelerDoor {
    /// The stream.
    #[default]
    Open,
    /// A status without a body worth reading.
    Status(u16),
    /// A page, with this status.
    Html(u16),
}

/// What is wrong with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Flaw {
    /// Its signature is of other bytes.
    Signature,
    /// Its signature has the higher of the two s.
    HighS,
    /// It carries none.
    Unsigned,
    /// It is said in another's name.
    Source,
}

/// What was asked of it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LabelerStats {
    /// Those that stand.
    pub subscribers: usize,
    /// The cursor of every subscription, in order.
    pub cursors: Vec<String>,
    /// How often its document was asked for.
    pub documents: u64,
    /// How often its list was.
    pub lists: u64,
    /// Subscriptions that were refused at the door.
    pub turned_away: u64,
}

/// A running labeler. Dropping it ends it.
#[derive(Debug)]
pub struct Labeler {
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    cuts: watch::Sender<u64>,
}

#[derive(Debug)]
struct State {
    did: String,
    url: String,
    key: SigningKey,
    /// What the document has: the key, unless it was changed in secret.
    published: Option<SigningKey>,
    seq: u64,
    clock_us: i64,
    /// What it has said, with the number that it has now.
    said: Vec<(u64, Label)>,
    /// From which number on the stream still has it.
    kept_from: u64,
    /// What was sent to present subscribers: everything that is not a label is only here.
    log: Vec<Entry>,
    mode: LabelerMode,
    door: LabelerDoor,
    has_list: bool,
    stats: LabelerStats,
}

#[derive(Clone, Debug)]
enum Entry {
    Label(u64),
    Raw(Vec<u8>),
}

impl Labeler {
    /// Starts on 127.0.0.1 (`port` 0: any free one).
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub async fn start(port: u16) -> io::Result<Self> {
        let key = sign::key(1);
        let state = State {
            did: String::new(),
            url: String::new(),
            published: Some(key.clone()),
            key,
            seq: 0,
            clock_us: 0,
            said: Vec::new(),
            kept_from: 0,
            log: Vec::new(),
            mode: LabelerMode::Normal,
            door: LabelerDoor::Open,
            has_list: true,
            stats: LabelerStats::default(),
        };
        let (changed, cuts) = (watch::Sender::new(0), watch::Sender::new(0));
        let shared = Arc::new(Shared { state: Mutex::new(state), changed, cuts });
        let of = Arc::clone(&shared);
        let listener = Listener::start(port, move |stream| serve::serve(stream, Arc::clone(&of))).await?;
        let port = listener.address().port();
        let mut state = lock(&shared.state);
        state.did = format!("did:web:localhost%3A{port}");
        state.url = format!("http://localhost:{port}");
        drop(state);
        Ok(Self { listener, shared })
    }

    /// Who it is.
    pub fn did(&self) -> String {
        lock(&self.shared.state).did.clone()
    }

    /// `http://localhost:PORT`
    pub fn url(&self) -> String {
        lock(&self.shared.state).url.clone()
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.listener.address().port()
    }

    /// What was asked of it.
    pub fn stats(&self) -> LabelerStats {
        lock(&self.shared.state).stats.clone()
    }

    /// The number of the last label.
    pub fn seq(&self) -> u64 {
        lock(&self.shared.state).seq
    }

    /// Waits until `count` subscribers are connected; false if that takes longer than `limit`.
    pub async fn subscribed(&self, count: usize, limit: Duration) -> bool {
        crate::until(limit, || self.stats().subscribers == count).await
    }

    /// The subjects that are taken down by what it has said, at this moment: of each subject the last word.
    pub fn taken_down(&self) -> Vec<String> {
        let state = lock(&self.shared.state);
        let mut last = std::collections::BTreeMap::new();
        let own = state.said.iter().filter(|(_, label)| label.src == state.did && label.is_sound);
        let mut own: Vec<&Label> =
            own.map(|(_, label)| label).filter(|label| label.val == "!takedown").collect();
        own.sort_by_key(|label| label.cts_us);
        own.into_iter().for_each(|label| _ = last.insert(label.uri.clone(), label));
        let now = ids::now_us();
        let stands = |label: &Label| label.neg != Some(true) && label.exp_us.is_none_or(|exp| exp > now);
        last.into_iter().filter(|(_, label)| stands(label)).map(|(uri, _)| uri).collect()
    }
}

/// What it says.
impl Labeler {
    /// Says a value of a subject, and gives the number.
    pub fn say(&self, uri: &str, val: &str) -> u64 {
        self.say_label(Label::of(uri, val))
    }

    /// Takes it back.
    pub fn negate(&self, uri: &str, val: &str) -> u64 {
        self.say_label(Label { neg: Some(true), ..Label::of(uri, val) })
    }

    /// Says a label; source, time (unless it has one) and signature are put in.
    pub fn say_label(&self, label: Label) -> u64 {
        self.said(label, None)
    }

    /// Says it with something wrong.
    pub fn say_badly(&self, label: Label, flaw: Flaw) -> u64 {
        self.said(label, Some(flaw))
    }

    fn said(&self, mut label: Label, flaw: Option<Flaw>) -> u64 {
        let mut state = lock(&self.shared.state);
        state.clock_us = (ids::now_us() / 1000 * 1000).max(state.clock_us + 1000);
        if label.cts_us == 0 {
            label.cts_us = state.clock_us;
        }
        label.src = match flaw {
            Some(Flaw::Source) => "did:web:somebody.test".to_owned(),
            _ => state.did.clone(),
        };
        label.is_sound = flaw.is_none();
        label.sig = sign::signature(&label, &state.key, flaw);
        state.seq += 1;
        let seq = state.seq;
        state.said.push((seq, label));
        if state.mode != LabelerMode::Lossy {
            state.log.push(Entry::Label(seq));
        }
        drop(state);
        self.wake();
        seq
    }

    /// Sends bytes as they are to all present subscribers, in order with the labels.
    pub fn send_bytes(&self, bytes: Vec<u8>) {
        lock(&self.shared.state).log.push(Entry::Raw(bytes));
        self.wake();
    }

    /// Sends a message of any kind, its body a map of one text, to all present subscribers.
    pub fn send_message(&self, kind: &str, key: &str, text: &str) {
        self.send_bytes(sign::message(kind, key, text));
    }

    /// Sends an error frame.
    pub fn send_error(&self, name: &str) {
        self.send_bytes(sign::error(name));
    }

    fn wake(&self) {
        self.shared.changed.send_modify(|count| *count += 1);
    }
}

/// Faults. Each holds until it is changed back.
impl Labeler {
    /// Drops the TCP connection of every subscriber, without a close frame.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|count| *count += 1);
    }

    /// How the stream behaves.
    pub fn set_mode(&self, mode: LabelerMode) {
        lock(&self.shared.state).mode = mode;
        self.wake();
    }

    /// What meets who wants to subscribe.
    pub fn set_door(&self, door: LabelerDoor) {
        lock(&self.shared.state).door = door;
    }

    /// Whether `queryLabels` is served.
    pub fn set_list(&self, on: bool) {
        lock(&self.shared.state).has_list = on;
    }

    /// Lets the stream forget all but the newest `keep` labels; the list has them. Older cursors get an `OutdatedCursor`.
    pub fn forget(&self, keep: u64) {
        let mut state = lock(&self.shared.state);
        state.kept_from = (state.seq + 1).saturating_sub(keep);
    }

    /// Counts anew from 1 what it has said, but for the first `lost` labels, and cuts its subscribers: their cursors are of the
    /// future then.
    pub fn reset_sequencer(&self, lost: usize) {
        let mut state = lock(&self.shared.state);
        let kept: Vec<Label> = state.said.drain(..).skip(lost).map(|(_, label)| label).collect();
        state.seq = kept.len() as u64;
        state.said = (1..).zip(kept).collect();
        (state.log, state.kept_from) = (Vec::new(), 0);
        drop(state);
        self.cut();
    }

    /// Signs with another key from now on. The document has it at once, or only after [`Labeler::publish_key`].
    pub fn rotate_key(&self, number: u8, publish: bool) {
        let mut state = lock(&self.shared.state);
        state.key = sign::key(number);
        if publish {
            state.published = Some(state.key.clone());
        }
    }

    /// Puts the key into the document.
    pub fn publish_key(&self) {
        let mut state = lock(&self.shared.state);
        state.published = Some(state.key.clone());
    }

    /// Signs everything that it has said anew, with the present key, as the reference labeler does when it is asked.
    pub fn sign_anew(&self) {
        let mut state = lock(&self.shared.state);
        let key = state.key.clone();
        for (_, label) in state.said.iter_mut().filter(|(_, label)| label.is_sound) {
            label.sig = sign::signature(label, &key, None);
        }
    }
}
