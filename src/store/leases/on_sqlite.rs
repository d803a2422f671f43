//! What SQLite asks for around the statements of a lease operation: a beacon before, a proof inside, a touch after.

use std::collections::BTreeSet;
use std::time::Duration;

use leased_actors::lease::{Ask, Incarnation, LeaseName, News, Registration, Renewal, StoreError};

use super::rows::{heartbeat, stored};
use super::{Commit, SqlLeases, failed};
use crate::store::Store;
use crate::store::beacon::Mark;
use crate::store::beacon::sqlite::Beacons;
use crate::store::queries::lease_instances::{self, End};
use crate::store::queries::{leases, rehearsal};
use crate::store::session::Session;

impl SqlLeases {
    /// The beacon is lit before anybody can read of it, and put out if nobody ever will.
    pub(super) async fn register_with_file(
        &self,
        beacons: &Beacons,
        me: Registration,
        names: Vec<LeaseName>,
    ) -> Result<(), StoreError> {
        let who = me.incarnation;
        let id = beacons.light(who).map_err(|error| failed("light a beacon", error))?;
        let mark = Mark { file: Some((id.device, id.inode)), ..Mark::default() };
        let registered = self.transact(None, "register".to_owned(), async move |session: &mut Session| {
            lease_instances::insert(session, &me, mark).await?;
            leases::insert_missing(session, &names).await
        });
        let registered = registered.await;
        match &registered {
            Ok(()) => {
                beacons.touch();
                let rehearse = async move |session: &mut Session| rehearsal::rehearse(session, who).await;
                if let Err(error) = self.run(None, "rehearse".to_owned(), rehearse).await {
                    tracing::debug!(%error, "the first claim and release will be slower");
                }
                self.sweep(beacons).await;
            }
            Err(_) => beacons.put_out(who),
        }
        registered
    }

    /// Removes what crashes between two of our steps have left behind.
    async fn sweep(&self, beacons: &Beacons) {
        let orphans = beacons.orphans();
        if orphans.is_empty() {
            return;
        }
        let work = async |session: &mut Session| lease_instances::living(session).await;
        match self.run(None, "sweep beacons".to_owned(), work).await {
            Ok(rows) => {
                let living: BTreeSet<_> = rows.into_iter().map(|(who, ..)| who).collect();
                let names = orphans.iter().map(|(who, _)| who);
                beacons.remove(names.filter(|who| !living.contains(&who.to_string())));
            }
            Err(error) => tracing::debug!(%error, "old beacons stay until the next registration"),
        }
    }

    /// Nothing is renewed, ever again, once our files are not where others look for them.
    pub(super) async fn renew_with_file(
        &self,
        beacons: &Beacons,
        me: Incarnation,
    ) -> Result<Renewal, StoreError> {
        if !beacons.is_intact(me).map_err(|error| failed("renew", error))? {
            return Ok(Renewal::Dead);
        }
        let work = async move |session: &mut Session| match lease_instances::raise(session, me).await? {
            true => leases::world(session, me).await.map(Some),
            false => Ok(None),
        };
        let Some(rows) = self.run_with(Commit::Soon, None, "renew".to_owned(), work).await? else {
            beacons.put_out(me);
            return Ok(Renewal::Dead);
        };
        let world = heartbeat(rows).map_err(|reason| failed("renew", reason))?;
        beacons.see(me, &world.peers);
        Ok(Renewal::Alive(world))
    }

    /// One read, and a transaction only if it finds somebody.
    pub(super) async fn bury_by_file(&self, beacons: &Beacons) -> Result<Vec<Incarnation>, StoreError> {
        let rows = self.run(None, "read beacons".to_owned(), async |session: &mut Session| {
            lease_instances::beacon_files(session).await
        });
        let mut gone = Vec::new();
        for (who, id) in rows.await? {
            let who = stored(&who).map_err(|reason| failed("bury", reason))?;
            if beacons.proves_death(who, id) {
                gone.push(who);
            }
        }
        if gone.is_empty() {
            return Ok(gone);
        }
        let buried = self.transact(None, "bury".to_owned(), async move |session: &mut Session| {
            let mut buried = Vec::new();
            for who in gone {
                if lease_instances::end(session, who, End::Beaconless).await? {
                    buried.push(who);
                }
            }
            Ok(buried)
        });
        let buried = buried.await?;
        self.after_deaths(&buried);
        Ok(buried)
    }

    /// The proof, the declaration and the claim in one commit. With the proof nobody is owed a wait; and whom the TTL
    /// declared dead has stopped within it.
    pub(super) async fn acquire_by_file(&self, ask: &Ask) -> Result<Option<leases::AcquiredRow>, StoreError> {
        let (database, mut asked) = (self.database.clone(), ask.clone());
        asked.grace = Duration::ZERO;
        let claim = self.transact(None, format!("claim {}", ask.name), async move |session: &mut Session| {
            let mut dead = None;
            if let Some(who) = asked.beaconless
                && let Store::Sqlite { beacons, .. } = database.store()
                && let Some(id) = lease_instances::beacon_file(session, who).await?
                && beacons.proves_death(who, id)
                && lease_instances::end(session, who, End::Beaconless).await?
            {
                dead = Some(who);
            }
            Ok((dead, leases::acquire(session, &asked).await?))
        });
        let (dead, acquired) = claim.await?;
        self.after_deaths(dead.as_slice());
        Ok(acquired)
    }

    /// To be called once their rows are dead in the database.
    pub(super) fn after_deaths(&self, dead: &[Incarnation]) {
        if let Store::Sqlite { beacons, .. } = self.database.store()
            && !dead.is_empty()
        {
            beacons.remove(dead);
            beacons.touch();
        }
    }

    /// From a release to a claim elsewhere: one touch, one read.
    pub(super) async fn news_by_file(&self, beacons: &Beacons, me: Incarnation) -> News {
        let Some(ears) = beacons.ears(me) else { return std::future::pending().await };
        let mut ears = ears.lock().await;
        loop {
            if let Some(news) = ears.next() {
                return news;
            }
            if ears.is_stirred() {
                // Without an answer: look.
                let free = self.free().await.unwrap_or_default();
                ears.read(free);
            } else if let Err(error) = ears.listen().await {
                beacons.tell_unwatched(&error);
            }
        }
    }

    async fn free(&self) -> Result<Vec<LeaseName>, StoreError> {
        let work = async |session: &mut Session| leases::free(session).await;
        let names = self.run_with(Commit::Soon, None, "read free leases".to_owned(), work).await?;
        let names = names.iter().map(|name| stored(name)).collect::<Result<_, _>>();
        names.map_err(|reason| failed("read free leases", reason))
    }
}
