//! The commands of the phases, carried out. Store calls run in tasks of their own and answer by a message.

use std::future::Future;
use std::sync::Arc;

use ractor::{Actor, ActorRef};
use tokio_util::sync::CancellationToken;

use super::Message;
use super::actor::{Running, State};
use crate::lease::instance::Event;
use crate::lease::slot::Command;
use crate::lease::{HandOver, Incarnation, Registration, Renewal, StoreError, Term, TermId, Trust};
use crate::metrics::{self, Meter};
use crate::shutdown::Report;
use crate::worker::{self, Progress, Shared, Shell};

impl State {
    pub(super) async fn carry_out(&mut self, myself: &ActorRef<Message>, command: Command) {
        let store = self.store.clone();
        match command {
            Command::Register => self.register(myself),
            Command::Listen(me) => self.listen(myself, me),
            Command::Renew(me) => self.renew(myself, me),
            Command::Trust(until) => self.trust.extend(until),
            Command::EndTrust => {
                self.trust.end();
                tracing::warn!(
                    "declared dead, or without its session: everything stops, then registers anew"
                );
            }
            Command::DeclareDead { who, seen } => self.declare_dead(myself, who, seen),
            Command::Bury(me) => self.bury(myself, me),
            Command::Claim(ask) => {
                let (name, me) = (ask.name.clone(), ask.me);
                self.ask(myself, async move { store.claim(&ask).await }, move |reply| {
                    Event::Claimed(name, me, logged(reply))
                });
            }
            Command::Start(term, after) => self.start(myself, term, Some(after)).await,
            Command::Restart(term) => self.start(myself, term, None).await,
            Command::Stop { term, within, revoked, why } => {
                tracing::info!(lease.name = %term.name, lease.epoch = term.epoch.0, why, "stopping worker");
                self.stop(myself, term, within, revoked, why);
            }
            // Without an answer the next claimer waits once more, and that is all.
            Command::EndWait(term) => self.ask(myself, async move { store.end_wait(&term).await }, |reply| {
                Event::WaitEnded(logged(reply))
            }),
            Command::Release(term, how) => {
                let asked = term.clone();
                self.ask(myself, async move { store.release(&asked, how).await }, move |reply| {
                    tell_release(&term, &reply);
                    Event::Released(term, reply)
                });
            }
            Command::Depart(me) => {
                self.ask(myself, async move { store.depart(me).await }, |reply| {
                    let _ = logged(reply);
                    Event::Departed
                });
            }
            Command::End => {
                // Set once: the instance gives this command once.
                let _ = self.report.set(Report::of(self.instance.outcomes()));
                myself.stop(None);
            }
        }
    }

    /// Sends a call to the store; its answer comes back as an event. A store that panics has failed, not vanished.
    fn ask<T: Send + 'static>(
        &self,
        myself: &ActorRef<Message>,
        call: impl Future<Output = Result<T, StoreError>> + Send + 'static,
        event: impl FnOnce(Result<T, StoreError>) -> Event + Send + 'static,
    ) {
        let mut answer =
            Answer { to: myself.clone(), meter: self.meter.clone(), event: Some(event), reply: None };
        self.tasks.spawn(async move {
            answer.reply = Some(call.await);
            drop(answer);
        });
    }

    fn declare_dead(&self, myself: &ActorRef<Message>, who: Incarnation, seen: i64) {
        let store = self.store.clone();
        self.ask(myself, async move { store.declare_dead(who, seen).await }, move |reply| {
            if reply == Ok(true) {
                metrics::declared_dead();
                tracing::warn!(instance = %who, "declared dead: its renewals stood still for its TTL");
            }
            Event::Declared(reply)
        });
    }

    fn bury(&self, myself: &ActorRef<Message>, me: Incarnation) {
        let store = self.store.clone();
        self.ask(myself, async move { store.bury(me).await }, |reply| {
            for who in reply.iter().flatten() {
                metrics::declared_dead();
                tracing::warn!(instance = %who, "declared dead: its beacon is gone");
            }
            Event::Buried(logged(reply))
        });
    }

    fn register(&mut self, myself: &ActorRef<Message>) {
        let (setup, store) = (&self.setup, self.store.clone());
        let me = Incarnation::new();
        self.trust = Trust::none(setup.clock.clone());
        let registration = Registration {
            incarnation: me,
            process: setup.process,
            label: setup.label.clone(),
            host: setup.host.clone(),
            pid: std::process::id(),
            admin_address: setup.admin_address.clone(),
            stop_bound: setup.timing.stop_bound(),
            ttl: setup.timing.ttl,
        };
        let names: Vec<_> = self.workers.keys().cloned().collect();
        self.ask(myself, async move { store.register(&registration, &names).await }, move |reply| {
            if reply.is_ok() {
                tracing::info!(instance = %me, "registered");
            }
            Event::Registered(me, logged(reply))
        });
    }

    /// Passes the store's news on, until another incarnation listens or the supervisor ends.
    fn listen(&mut self, myself: &ActorRef<Message>, me: Incarnation) {
        let (store, myself, meter) = (self.store.clone(), myself.clone(), self.meter.clone());
        let stop = CancellationToken::new();
        self.listening = Some(stop.clone().drop_guard());
        self.tasks.spawn(async move {
            while let Some(news) = stop.run_until_cancelled(store.news(me)).await {
                metrics::news(&news);
                meter.sending();
                let _ = myself.cast(Message::Event(Event::News(me, news)));
            }
        });
    }

    fn renew(&self, myself: &ActorRef<Message>, me: Incarnation) {
        let (store, clock) = (self.store.clone(), self.setup.clock.clone());
        let sent = clock.now();
        self.ask(myself, async move { store.renew(me).await }, move |reply| {
            let outcome = match &reply {
                Ok(Renewal::Alive(_)) => "ok",
                Ok(Renewal::Dead) => "dead",
                Err(_) => "error",
            };
            metrics::renewed(clock.now().since(sent), outcome);
            Event::Renewed(me, sent, logged(reply))
        });
    }

    async fn start(&mut self, myself: &ActorRef<Message>, id: TermId, after: Option<HandOver>) {
        let Some(worker) = self.workers.get(&id.name).map(Arc::clone) else { return };
        self.runs += 1;
        let name = format!("{}@{}#{}", id.name, self.setup.process, self.runs);
        let term = Term::new(id.clone(), self.trust.clone());
        let (shared, meter) = (Shared::default(), Meter::new(id.name.as_str()));
        let (progress, progress_within) = (Progress::new(self.setup.clock.clone()), worker.progress_within());
        if worker.effects() == crate::lease::Effects::External {
            self.watchdog.watch(id.clone(), self.trust.clone());
        }
        let start = worker::Start {
            worker,
            term: term.clone(),
            shared: shared.clone(),
            progress: progress.clone(),
            meter: meter.clone(),
        };
        match Shell::spawn_linked(Some(name), Shell, start, myself.get_cell()).await {
            Ok((actor, _)) => {
                self.tell_end(myself, id.clone(), shared);
                self.running
                    .insert(id.name.clone(), Running { term, actor, progress, progress_within, meter });
                self.tell_start(&id, after);
            }
            Err(error) => {
                tracing::error!(lease.name = %id.name, %error, "the worker's actor did not start");
                self.end_at_once(myself, id, worker::End::Failed(error.to_string()));
            }
        }
    }

    /// Tells when the worker's body has really ended, however: that is the acknowledgement of its stop. Not before, not
    /// twice, and without waiting for the end of its actor, which has nothing more to do.
    fn tell_end(&self, myself: &ActorRef<Message>, term: TermId, shared: Shared) {
        let (myself, meter) = (myself.clone(), self.meter.clone());
        self.tasks.spawn(async move {
            let end = shared.finished().await;
            meter.sending();
            let _ = myself.cast(Message::Ended(term, end));
        });
    }

    fn tell_start(&self, id: &TermId, after: Option<HandOver>) {
        let (lease, epoch) = (&id.name, id.epoch.0);
        let Some(after) = after else {
            metrics::restarted(lease.as_str());
            tracing::info!(lease.name = %lease, lease.epoch = epoch, "worker started again");
            return;
        };
        let waited = self.instance.slots().find(|slot| slot.name == *lease).map(|slot| {
            // Zero but for a carried grace.
            slot.started_at.since(slot.settled_at)
        });
        metrics::acquired(lease, epoch, after, waited.unwrap_or_default());
        let gap_ms = u64::try_from(after.gap.as_millis()).unwrap_or(u64::MAX);
        tracing::info!(lease.name = %lease, lease.epoch = epoch, reason = after.reason, gap_ms, "lease acquired, worker started");
    }

    fn stop(
        &mut self,
        myself: &ActorRef<Message>,
        id: TermId,
        within: std::time::Duration,
        revoked: bool,
        why: &'static str,
    ) {
        if revoked {
            metrics::lost(&id.name, why);
        }
        let Some(running) = self.running.get_mut(&id.name) else {
            return self.end_at_once(myself, id, worker::End::Stopped);
        };
        running.progress_within = None;
        if revoked {
            running.term.end();
        }
        running.meter.sending();
        // An actor that is gone has its supervision event under way: that is the acknowledgement.
        let _ = running.actor.cast(worker::Message::Stop(within));
    }

    fn end_at_once(&self, myself: &ActorRef<Message>, id: TermId, end: worker::End) {
        self.meter.sending();
        let _ = myself.cast(Message::Ended(id, end));
    }
}

/// The answer to a call, sent when it is dropped: so also by a call that panicked, without another task that waits.
struct Answer<T, F: FnOnce(Result<T, StoreError>) -> Event> {
    to: ActorRef<Message>,
    meter: Meter,
    event: Option<F>,
    reply: Option<Result<T, StoreError>>,
}

impl<T, F: FnOnce(Result<T, StoreError>) -> Event> Drop for Answer<T, F> {
    fn drop(&mut self) {
        let vanished =
            || StoreError { operation: "store call".into(), reason: "it ended without an answer".into() };
        let reply = self.reply.take().unwrap_or_else(|| Err(vanished()));
        if let Some(event) = self.event.take() {
            self.meter.sending();
            // A supervisor that is gone needs no answer.
            let _ = self.to.cast(Message::Event(event(reply)));
        }
    }
}

/// Logs a failure of the store once, here: nobody further on does.
fn logged<T>(reply: Result<T, StoreError>) -> Result<T, StoreError> {
    if let Err(error) = &reply {
        tracing::warn!(operation = error.operation, reason = error.reason, "lease store failed");
    }
    reply
}

fn tell_release(term: &TermId, reply: &Result<bool, StoreError>) {
    let (lease, epoch) = (&term.name, term.epoch.0);
    match reply {
        Ok(true) => tracing::info!(lease.name = %lease, lease.epoch = epoch, "lease released"),
        Ok(false) => {
            tracing::info!(lease.name = %lease, lease.epoch = epoch, "lease had gone to another already")
        }
        Err(error) => {
            tracing::warn!(lease.name = %lease, lease.epoch = epoch, reason = error.reason, "lease not released");
        }
    }
}
