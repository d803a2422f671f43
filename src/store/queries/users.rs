//! `users`: accounts, and who they are.

use std::time::Duration;

use diesel::QueryResult;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::chunked;
use super::leases::micros;
use crate::atproto::{Did, Handle, Micros};
use crate::store::IdentityDue;
use crate::store::session::Session;
use crate::store::statement::{Statement, row};

/// The handle of whoever has none that is valid; the only one that many may have.
pub(in crate::store) const NO_HANDLE: &str = "handle.invalid";

/// Every account.
pub(in crate::store) async fn all(session: &mut Session) -> QueryResult<Vec<String>> {
    session.load::<Text, String>(Statement::new("SELECT did FROM users")).await
}

/// Accounts whose look-up is due, with the time and the failures so far; the longest due first.
pub(in crate::store) async fn due(session: &mut Session, limit: i64) -> QueryResult<Vec<(String, i64, i64)>> {
    let select = Statement::new(
        "SELECT did, identity_due_at, identity_failures FROM users
         WHERE identity_due_at <= {now_us} ORDER BY identity_due_at LIMIT ?",
    );
    session.load::<(Text, BigInt, BigInt), _>(select.bind(limit)).await
}

/// A row for each that has none, its identity due now. Returns those.
pub(in crate::store) async fn insert_missing(
    session: &mut Session,
    dids: &[Did],
) -> QueryResult<Vec<String>> {
    let mut new = Vec::new();
    for chunk in chunked(dids, |did| row![did.as_str()]) {
        let insert = Statement::new(
            "WITH new (did) AS (VALUES {rows})
             INSERT INTO users (did, first_seen, identity_due_at)
             SELECT did, {now_us}, {now_us} FROM new WHERE TRUE
             ON CONFLICT (did) DO NOTHING RETURNING did",
        );
        new.extend(session.load::<Text, String>(insert.rows(&chunk)).await?);
    }
    Ok(new)
}

/// Keeps other writers away from these accounts' repositories until the transaction ends; in one order everywhere, so
/// that no two wait for each other. On SQLite there is no other writer.
pub(in crate::store) async fn lock(session: &mut Session, dids: &[Did]) -> QueryResult<()> {
    if !session.has_other_writers() {
        return Ok(());
    }
    let mut dids: Vec<&Did> = dids.iter().collect();
    dids.sort();
    for chunk in chunked(&dids, |did| row![did.as_str()]) {
        let select = Statement::new(
            "SELECT did FROM users WHERE did IN (VALUES {rows}) ORDER BY did COLLATE \"C\" FOR NO KEY UPDATE",
        );
        session.load::<Text, String>(select.rows(&chunk)).await?;
    }
    Ok(())
}

/// What an account says about itself, unless something as new is known.
pub(in crate::store) async fn set_account(
    session: &mut Session,
    did: &Did,
    active: bool,
    status: Option<&str>,
    at: Micros,
) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE users SET active = ?, status = ?, account_at = ? WHERE did = ? AND account_at < ?",
    );
    let update = update.bind(active).bind(status).bind(at.0).bind(did.as_str()).bind(at.0);
    Ok(session.execute(update).await? == 1)
}

/// What an account's PDS was found to say of it, if that is news: then later than all that is known. Whether it was.
pub(in crate::store) async fn set_standing(
    session: &mut Session,
    did: &Did,
    active: bool,
    status: Option<&str>,
    at: Micros,
) -> QueryResult<bool> {
    let update = Statement::new(
        "UPDATE users SET active = ?, status = ?, account_at = ? WHERE did = ? AND account_at < ?
         AND (active <> ? OR COALESCE(status, '') <> COALESCE(?, ''))",
    );
    let update = update.bind(active).bind(status).bind(at.0).bind(did.as_str()).bind(at.0);
    Ok(session.execute(update.bind(active).bind(status)).await? == 1)
}

/// Whose a handle is, if it is known.
pub(in crate::store) async fn of_handle(session: &mut Session, handle: &str) -> QueryResult<Option<String>> {
    let select = Statement::new("SELECT did FROM users WHERE handle = ? AND handle <> 'handle.invalid'");
    session.first::<Text, String>(select.bind(handle)).await
}

/// The handle and the PDS that are known of an account.
pub(in crate::store) async fn identity(
    session: &mut Session,
    did: &Did,
) -> QueryResult<Option<(String, Option<String>)>> {
    let select = Statement::new("SELECT handle, pds FROM users WHERE did = ?");
    session.first::<(Text, Nullable<Text>), _>(select.bind(did.as_str())).await
}

/// Since when an account's look-up is due, if it is.
pub(in crate::store) async fn due_at(session: &mut Session, did: &Did) -> QueryResult<Option<i64>> {
    let select = Statement::new("SELECT identity_due_at FROM users WHERE did = ?");
    Ok(session.first::<Nullable<BigInt>, Option<i64>>(select.bind(did.as_str())).await?.flatten())
}

/// Deletes an account, and with it all that it has in other tables. Whether it was there.
pub(in crate::store) async fn delete(session: &mut Session, did: &Did) -> QueryResult<bool> {
    let delete = Statement::new("DELETE FROM users WHERE did = ?");
    Ok(session.execute(delete.bind(did.as_str())).await? == 1)
}

/// Makes the look-ups due. The time always changes, so that a look-up that is under way does not clear it.
pub(in crate::store) async fn mark_due(session: &mut Session, dids: &[Did]) -> QueryResult<()> {
    for chunk in chunked(dids, |did| row![did.as_str()]) {
        let update = Statement::new(
            "UPDATE users SET identity_due_at =
                 CASE WHEN identity_due_at <= {now_us} THEN identity_due_at + 1 ELSE {now_us} END
             WHERE did IN (VALUES {rows})",
        );
        session.execute(update.rows(&chunk)).await?;
    }
    Ok(())
}

/// Takes a handle from whoever else has it. The last condition is the index's, which is used for it.
pub(in crate::store) async fn take_handle(
    session: &mut Session,
    did: &Did,
    handle: &Handle,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE users SET handle = ? WHERE handle = ? AND did <> ? AND handle <> 'handle.invalid'",
    );
    session.execute(update.bind(NO_HANDLE).bind(handle.as_str()).bind(did.as_str())).await?;
    Ok(())
}

/// Stores what was looked up; without a handle, the old one stays.
pub(in crate::store) async fn set_identity(
    session: &mut Session,
    did: &Did,
    handle: Option<&str>,
    pds: Option<&str>,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE users SET handle = COALESCE(?, handle), pds = ?, identity_at = {now_us} WHERE did = ?",
    );
    session.execute(update.bind(handle).bind(pds).bind(did.as_str())).await?;
    Ok(())
}

/// A look-up has succeeded. It stays due if it was asked for again meanwhile.
pub(in crate::store) async fn clear_due(session: &mut Session, due: &IdentityDue) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE users SET identity_failures = 0,
             identity_due_at = CASE WHEN identity_due_at = ? THEN NULL ELSE identity_due_at END
         WHERE did = ?",
    );
    session.execute(update.bind(due.due_at).bind(due.did.as_str())).await?;
    Ok(())
}

/// A look-up has failed. It is put off, unless it was asked for again meanwhile.
pub(in crate::store) async fn put_off(
    session: &mut Session,
    due: &IdentityDue,
    wait: Duration,
) -> QueryResult<()> {
    let update = Statement::new(
        "UPDATE users SET identity_failures = identity_failures + 1,
             identity_due_at = CASE WHEN identity_due_at = ? THEN {now_us} + ? ELSE identity_due_at END
         WHERE did = ?",
    );
    let update = update.bind(due.due_at).bind(micros(wait)).bind(due.did.as_str());
    session.execute(update).await?;
    Ok(())
}
