//! The statements of a hand-over, run once for nothing, so that nobody waits for their first time: they are prepared
//! and planned on the session, and the database has read what they need. The first of each took four times the next.

use std::time::Duration;

use diesel::QueryResult;
use diesel::result::Error;
use leased_actors::lease::{Ask, Epoch, Incarnation, LeaseName, Release, TermId};

use super::lease_instances::{self, End};
use super::{beacons, leases, take_over};
use crate::store::session::Session;

/// Claims and releases a lease that nobody else can see, declares dead an instance that there is none of, and takes it
/// all back.
pub(in crate::store) async fn rehearse(session: &mut Session, me: Incarnation) -> QueryResult<()> {
    session.begin().await?;
    let outcome = rehearsed(session, me).await;
    match session.end::<(), Error>(outcome.and(Err(Error::RollbackTransaction))).await {
        Err(Error::RollbackTransaction) => Ok(()),
        other => other,
    }
}

async fn rehearsed(session: &mut Session, me: Incarnation) -> QueryResult<()> {
    let name: LeaseName = format!("rehearsal-{me}").parse().map_err(|_| Error::NotFound)?;
    leases::insert_missing(session, std::slice::from_ref(&name)).await?;
    let ask = Ask { name: name.clone(), me, grace: Duration::ZERO, beaconless: None, ends_wish: false };
    let on_server = session.has_other_writers();
    let acquired = match on_server {
        true => leases::acquire_at_once(session, &ask).await?,
        false => leases::acquire(session, &ask).await?,
    };
    let term = TermId { name, holder: me, epoch: Epoch(acquired.map_or(0, |(epoch, ..)| epoch)) };
    let nobody = Incarnation::new();
    if on_server {
        beacons::release(session, &term).await?;
        take_over::acquire(session, &ask, nobody).await?;
    } else {
        leases::release(session, &term, Release::Free).await?;
        lease_instances::beacon_file(session, nobody).await?;
        lease_instances::end(session, nobody, End::Beaconless).await?;
        leases::note_all_of(session, nobody, "").await?;
    }
    Ok(())
}
