//! The ring: each instance waits for the end of the next one's beacon, so that a crash has one witness at once.
//!
//! On a connection of its own: on the beacon's, two instances that wait for each other would be a deadlock.

use std::collections::BTreeSet;
use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use leased_actors::lease::{Incarnation, News};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::{RETRY_MAX, RETRY_MIN};
use crate::store::postgres::Sessions;
use crate::store::queries::beacons;
use crate::store::session::{PostgresSession, Session};

/// How long one statement waits: its snapshot holds back VACUUM. At half of it, twice the statements; at double, nothing
/// breaks but tables that change much grow.
const REARM_EVERY: Duration = Duration::from_secs(10);

/// An instance with a beacon. Ordered as the ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lit {
    pub(super) who: Incarnation,
    pub(super) key: i64,
}

/// Watches the next beacon after `me`, then the one after that, until it finds one that is lit.
pub(super) async fn watch(
    sessions: Sessions,
    me: Incarnation,
    mut peers: watch::Receiver<Vec<Lit>>,
    news: mpsc::Sender<News>,
) {
    let (mut gone, mut session, mut pause) = (BTreeSet::new(), None, RETRY_MIN);
    loop {
        let next = next_after(me, &peers.borrow_and_update(), &mut gone);
        let Some(next) = next else {
            if peers.changed().await.is_err() {
                return;
            }
            continue;
        };
        let ended = tokio::select! {
            ended = wait_for(&sessions, &mut session, next.key) => ended,
            () = another(&mut peers, me, next, &gone) => {
                // The statement under way ends with its connection.
                session = None;
                continue;
            }
        };
        if ended {
            gone.insert(next.who);
            let _ = news.try_send(News::Beaconless(next.who));
            pause = RETRY_MIN;
        } else {
            // Time to ask again: the server is there. Without a session it is not.
            pause = if session.is_some() { RETRY_MIN } else { (pause * 2).min(RETRY_MAX) };
            sleep(pause).await;
        }
    }
}

/// The first in the ring after `me` that is not known to be gone. Forgets those that are listed no more.
fn next_after(me: Incarnation, peers: &[Lit], gone: &mut BTreeSet<Incarnation>) -> Option<Lit> {
    gone.retain(|who| peers.iter().any(|peer| peer.who == *who));
    let lit = |peer: &&Lit| !gone.contains(&peer.who);
    let after = peers.iter().filter(lit).find(|peer| peer.who > me);
    after.or_else(|| peers.iter().find(lit)).copied()
}

/// Waits until the renewals show another next one.
async fn another(
    peers: &mut watch::Receiver<Vec<Lit>>,
    me: Incarnation,
    now: Lit,
    gone: &BTreeSet<Incarnation>,
) {
    let is_other = |peers: &Vec<Lit>| next_after(me, peers, &mut gone.clone()) != Some(now);
    if peers.wait_for(is_other).await.is_err() {
        // The incarnation is over, and this ends with it.
        std::future::pending().await
    }
}

/// True: the lock is free. False: it still is not, or the server does not answer.
async fn wait_for(sessions: &Sessions, session: &mut Option<Session>, key: i64) -> bool {
    if session.is_none() {
        *session = connect(sessions).await;
    }
    let Some(open) = session else { return false };
    let free = beacons::wait_for(open, key).await.is_ok();
    if !free && open.is_broken() {
        *session = None;
    }
    free
}

async fn connect(sessions: &Sessions) -> Option<Session> {
    let mut session = sessions.connect().await.ok()?;
    let limit = format!("SET lock_timeout = {}", REARM_EVERY.as_millis());
    session.batch_execute(&limit).await.ok()?;
    Some(Session::Postgres(PostgresSession::Own(session)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn who(n: u8) -> Incarnation {
        format!("{n:032x}").parse().unwrap()
    }

    #[test]
    fn the_next_one_is_found_all_around_the_ring() {
        let peers: Vec<_> = [2, 5, 9].map(|n| Lit { who: who(n), key: n.into() }).into();
        let next = |me, gone: &[u8]| {
            let mut gone = gone.iter().map(|n| who(*n)).collect();
            next_after(who(me), &peers, &mut gone).map(|next| next.key)
        };
        assert_eq!((next(1, &[]), next(4, &[]), next(10, &[])), (Some(2), Some(5), Some(2)));
        assert_eq!((next(4, &[5]), next(4, &[5, 9]), next(4, &[2, 5, 9])), (Some(9), Some(2), None));
    }

    #[test]
    fn who_is_listed_no_more_is_forgotten() {
        let mut gone = BTreeSet::from([who(3)]);
        assert_eq!(next_after(who(1), &[], &mut gone), None);
        assert!(gone.is_empty());
    }
}
