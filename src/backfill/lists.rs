//! Lists that name repositories, page by page into the database, each page in one transaction with the place behind it.
//! Owns which failures leave a list to later.

use std::time::Duration;

use tokio::time::Instant;

use super::ask::AskError;
use super::enumerate::Relays;
use super::pages::Turn;
use super::{Desk, FAILURES_MAX, meters, plain, wait_after};
use crate::atproto::{Collection, Did};
use crate::store::WriteError;
use crate::store::backfill::{DueList, ListName};

/// Repositories that one transaction takes from the index: as many as a relay's page has.
const PAGE: u32 = 2_000;

/// Reads a list to its end. One that fails does not keep the others.
pub(super) async fn read(desk: Desk, list: DueList, forced: bool) -> Result<(), WriteError> {
    let (database, relays) = (desk.database.clone(), desk.relays.clone());
    let reading = Reading { desk, list, forced };
    match &reading.list.name {
        ListName::Relay { url, collection } => {
            match (0..relays.count()).find(|at| relays.url(*at) == url) {
                Some(at) => reading.relay(&relays, at, *collection).await,
                // The settings name it no more.
                None => reading.found(&[], None).await,
            }
        }
        name => {
            let mut cursor = reading.list.cursor.clone();
            loop {
                let dids = database.named_repos(name, cursor.as_deref(), PAGE).await;
                let dids = dids.map_err(|error| WriteError::Database(error.to_string()))?;
                cursor = dids.last().map(ToString::to_string);
                reading.found(&dids, cursor.as_deref()).await?;
                if cursor.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

struct Reading {
    desk: Desk,
    list: DueList,
    forced: bool,
}

impl Reading {
    async fn relay(&self, relays: &Relays, at: usize, collection: Collection) -> Result<(), WriteError> {
        let mut walk = Relays::walk(self.list.cursor.clone());
        loop {
            let page = match relays.page(at, collection, walk.cursor()).await {
                Ok(page) => page,
                Err(error) => return self.failed(&error).await,
            };
            for did in &page.dids {
                walk.note(did.as_str());
            }
            let turn = walk.turn(page.cursor);
            match turn {
                Turn::Next => self.found(&page.dids, walk.cursor()).await?,
                Turn::End => return self.found(&page.dids, None).await,
                Turn::Unclear | Turn::TooLong => {
                    tracing::warn!(
                        relay = relays.url(at),
                        collection = collection.nsid(),
                        ?turn,
                        "the relay's list was not read to its end"
                    );
                    meters::failed("relay_list");
                    return self.found(&page.dids, None).await;
                }
            }
        }
    }

    async fn found(&self, dids: &[Did], cursor: Option<&str>) -> Result<(), WriteError> {
        let (list, forced, dids) = (self.list.clone(), self.forced, dids.to_vec());
        let cursor = cursor.map(str::to_owned);
        let work = async move |tx: &mut crate::store::Tx| {
            tx.found_repos(&list, forced, &dids, cursor.as_deref()).await
        };
        self.desk.database.fenced(&self.desk.term, work).await
    }

    /// A relay that is in trouble is not asked for its other lists either until it is tried again.
    async fn failed(&self, error: &AskError) -> Result<(), WriteError> {
        let failures = self.list.failures;
        let is_temporary = error.is_temporary();
        let named =
            error.retry_at().map_or(Duration::ZERO, |at| at.saturating_duration_since(Instant::now()));
        let wait = named.clamp(wait_after(failures), wait_after(u32::MAX));
        let wait = (is_temporary && failures + 1 < FAILURES_MAX).then_some(wait);
        meters::failed("relay");
        let again = wait.map_or("not in this run".to_owned(), |wait| format!("in {wait:?}"));
        tracing::warn!(list = %self.list.name, %error, again, "a relay's list of repositories could not be read");
        let (list, error) = (self.list.clone(), plain(error));
        let work =
            async move |tx: &mut crate::store::Tx| tx.list_failed(&list, &error, wait, is_temporary).await;
        self.desk.database.fenced(&self.desk.term, work).await
    }
}
