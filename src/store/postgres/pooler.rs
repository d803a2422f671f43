//! Whether what leads to the server mixes up the statements of different clients.
//!
//! A pooler in transaction mode hands each transaction to another session. One that does not bring the client's prepared
//! statements along (pgbouncer before 1.21, or with `max_prepared_statements = 0`) runs whatever another instance has
//! prepared there under the same name: a write is acknowledged and was never made.

use tokio::time::timeout;
use tokio_postgres::{Client, Error};

use super::Sessions;

/// Tries until a statement runs in another session than the one it was prepared in; poolers take the last used or the
/// first used one, so the second try is there in either case. At double, nothing but the start is slower.
const TRIES: usize = 4;

impl Sessions {
    /// Whether statements certainly get mixed up. False if it cannot be told: then other errors will tell.
    pub(in crate::store) async fn mix_statements_up(&self) -> bool {
        let tried = timeout(self.statement_max, async {
            let (one, other) = (self.client().await.ok()?, self.client().await.ok()?);
            are_mixed_up(&one, &other).await.map_or_else(|error| Some(error.as_db_error().is_some()), Some)
        });
        tried.await.ok().flatten().unwrap_or(false)
    }

    /// A plain client, which ends with the last use.
    async fn client(&self) -> diesel::ConnectionResult<Client> {
        let (client, connection) = self.dial().await?;
        tokio::spawn(connection);
        Ok(client)
    }
}

/// Err with the server's word: it does not know the statement, or another one by that name.
async fn are_mixed_up(one: &Client, other: &Client) -> Result<bool, Error> {
    let mark: i32 = rand::random();
    one.batch_execute("BEGIN").await?;
    let statement = one.prepare(&format!("SELECT pg_backend_pid(), {mark}")).await?;
    let prepared_in: i32 = one.query_one(&statement, &[]).await?.try_get(0)?;
    // While ours is open this one is in another session; both are free afterwards.
    other.batch_execute("BEGIN; SELECT 1").await?;
    one.batch_execute("COMMIT").await?;
    other.batch_execute("COMMIT").await?;
    for _ in 0..TRIES {
        let row = one.query_one(&statement, &[]).await?;
        match (row.try_get::<_, i32>(0), row.try_get::<_, i32>(1)) {
            (Ok(pid), Ok(marked)) if marked == mark && pid == prepared_in => {}
            (Ok(_), Ok(marked)) if marked == mark => return Ok(false),
            _ => return Ok(true),
        }
    }
    Ok(false)
}
