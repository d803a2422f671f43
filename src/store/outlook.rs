//! From what the stream brought to the outbox, in the transaction that brings it into the index.
//!
//! What was known before is read first, and only of what some webhook may want to hear of. Then the index is written, and
//! then what that asks for is put in. A batch that no webhook cares for costs one look at its users' webhooks.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::WriteError;
use super::queries::{self, webhook_deliveries};
use super::session::Session;
use crate::atproto::records::{Scan, Tag};
use crate::atproto::{Change, Collection, Did, Record, State};
use crate::outbox::Trigger;
use crate::outbox::fold::{After, Before, Hook, Put, RecordKey, fold, user_of};

/// Deliveries that may wait for one webhook. At half, the catch-up of a busy user after a long outage would lose some; at
/// double, one dead endpoint costs twice the rows.
const WAITING_MAX: i64 = 10_000;

/// The webhooks that may want to hear of a batch, and what was known before it.
pub(super) struct Outlook {
    hooks: Vec<Hook>,
    before: Before,
}

impl Outlook {
    /// Looks at the batch before it is written. None: nobody wants to hear of it.
    pub(super) async fn before(
        session: &mut Session,
        changes: &[Change],
    ) -> Result<Option<Self>, WriteError> {
        let users: BTreeSet<&Did> = changes.iter().filter_map(user_of).collect();
        if users.is_empty() {
            return Ok(None);
        }
        let rows = queries::webhooks::enabled_of(session, &Vec::from_iter(users)).await?;
        if rows.is_empty() {
            return Ok(None);
        }
        let hook = |(id, user, triggers): (i64, String, i64)| {
            let wrong = |_| WriteError::Database(format!("a stored identity {user:?}"));
            Ok(Hook { id, user: Did::parse(&user).map_err(wrong)?, triggers })
        };
        let hooks = rows.into_iter().map(hook).collect::<Result<Vec<_>, WriteError>>()?;
        let watched = watched(changes, &hooks);
        let tags: Vec<&Change> =
            watched.iter().copied().filter(|change| change.collection == Collection::Tag).collect();
        let before = Before {
            revs: queries::outbox::revs(session, &watched).await?,
            tags: queries::outbox::tags(session, &tags).await?,
            scans: queries::outbox::scans(session, &of_scans(&watched)).await?,
            manifests: queries::outbox::manifests(session, &of_tags(&watched)).await?,
        };
        Ok(Some(Self { hooks, before }))
    }

    /// Puts in what the batch asks for, now that these of its records are written. How many by trigger, and how many
    /// were failed because too many were waiting.
    pub(super) async fn put(
        self,
        session: &mut Session,
        changes: &[Change],
        written: HashSet<RecordKey>,
    ) -> Result<(BTreeMap<Trigger, usize>, usize), WriteError> {
        let watched = watched(changes, &self.hooks);
        let tags = of_tags(&watched);
        let after = After { written, trusted: queries::outbox::trusted(session, &of_scans(&watched)).await? };
        let open = webhook_deliveries::open(session, &pairs(&tags, &self.hooks)).await?;
        let asked = fold(changes, &self.hooks, self.before, &after, open);
        let missed = webhook_deliveries::complete(session, &asked.completions).await?;
        let puts: Vec<&Put> =
            asked.puts.iter().chain(missed.into_iter().map(|completion| &completion.instead)).collect();
        let inserted = webhook_deliveries::insert(session, &puts).await?;

        let webhooks: BTreeSet<i64> = inserted.iter().map(|(webhook, _)| *webhook).collect();
        let over = webhook_deliveries::drop_over(session, &Vec::from_iter(webhooks), WAITING_MAX).await?;
        let mut dropped = 0;
        for (webhook, count) in over {
            queries::webhooks::dropped(session, webhook, count).await?;
            dropped += usize::try_from(count).unwrap_or(0);
        }
        let mut put = BTreeMap::new();
        for trigger in inserted.iter().filter_map(|(_, trigger)| trigger.parse::<Trigger>().ok()) {
            *put.entry(trigger).or_default() += 1;
        }
        Ok((put, dropped))
    }
}

/// The changes of the users' manifests and tags, their deletions included, and the scans that are about them.
fn watched<'a>(changes: &'a [Change], hooks: &[Hook]) -> Vec<&'a Change> {
    let users: HashSet<&Did> = hooks.iter().map(|hook| &hook.user).collect();
    let is_watched = |change: &&Change| match user_of(change) {
        Some(user) => users.contains(user),
        None => change.collection == Collection::Tag && users.contains(&change.did),
    };
    changes.iter().filter(is_watched).collect()
}

fn of_tags<'a>(changes: &[&'a Change]) -> Vec<(&'a Did, &'a Tag)> {
    let tag = |change: &&'a Change| match &change.state {
        State::Present(record) => match &**record {
            Record::Tag(tag) => Some((&change.did, tag)),
            _ => None,
        },
        _ => None,
    };
    changes.iter().filter_map(tag).collect()
}

fn of_scans<'a>(changes: &[&'a Change]) -> Vec<(&'a Did, &'a Scan)> {
    let scan = |change: &&'a Change| match &change.state {
        State::Present(record) => match &**record {
            Record::Scan(scan) => Some((&change.did, scan)),
            _ => None,
        },
        _ => None,
    };
    changes.iter().filter_map(scan).collect()
}

/// The webhooks that hear of pushes, with the manifests that their users' tags name.
fn pairs<'a>(tags: &[(&'a Did, &'a Tag)], hooks: &[Hook]) -> Vec<(i64, &'a str)> {
    let mut pairs = BTreeSet::new();
    for hook in hooks.iter().filter(|hook| hook.triggers & Trigger::Push.bit() != 0) {
        let of_user = tags.iter().filter(|(user, _)| **user == hook.user);
        pairs.extend(of_user.map(|(_, tag)| (hook.id, tag.digest.as_str())));
    }
    Vec::from_iter(pairs)
}
