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

/// A row for each that has none, its identity due now. Returns those, each with the time since which it is due.
pub(in crate::store) async fn insert_missing(
    session: &mut Session,
    dids: &[Did],
) -> QueryResult<Vec<(String, i64)>> {
    let mut new = Vec::new();
    for chunk in chunked(dids, |did| row![did.as_str()]) {
        let insert = Statement::new(
            "WITH new (did) AS ({rows})
             INSERT INTO users (did, first_seen, identity_due_at)
             SELECT did, {now_us}, {now_us} FROM new WHERE TRUE
             ON CONFLICT (did) DO NOTHING RETURNING did, identity_due_at",
        );
        new.extend(session.load::<(Text, BigInt), _>(insert.each(chunk)).await?);
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
            "SELECT did FROM users WHERE did IN ({rows}) ORDER BY did COLLATE \"C\" FOR NO KEY UPDATE",
        );
        session.load::<Text, String>(select.rows(chunk)).await?;
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

/// DID, whether it is shown, the word for why not, and since when.
pub(in crate::store) type Standing<'a> = (&'a Did, bool, Option<&'a str>, Micros);

/// DID, the handle if it is known, the PDS, and the look-up that this was, if one was due.
pub(in crate::store) type Found<'a> = (&'a Did, Option<&'a str>, Option<&'a str>, Option<i64>);

/// What accounts' PDSes were found to say of them, as far as it is news: then later than all that is known.
pub(in crate::store) async fn set_standings(session: &mut Session, of: &[Standing<'_>]) -> QueryResult<()> {
    for chunk in chunked(of, |(did, active, status, at)| row![did.as_str(), *active, *status, at.0]) {
        let update = Statement::new(
            "WITH found (did, active, status, at_us) AS ({rows})
             UPDATE users SET active = found.active, status = found.status, account_at = found.at_us FROM found
             WHERE users.did = found.did AND users.account_at < found.at_us
                 AND (users.active <> found.active OR COALESCE(users.status, '') <> COALESCE(found.status, ''))",
        );
        session.execute(update.each(chunk)).await?;
    }
    Ok(())
}

/// Stores identities, as far as they are news. A handle moves: whoever had it has none. A look-up that was due is so no
/// more, unless it was asked for again meanwhile. The last condition of the first statement is the index's.
pub(in crate::store) async fn set_identities(session: &mut Session, found: &[Found<'_>]) -> QueryResult<()> {
    let named: Vec<_> = found
        .iter()
        .filter_map(|(did, handle, ..)| {
            handle.filter(|handle| *handle != NO_HANDLE).map(|handle| (did, handle))
        })
        .collect();
    for chunk in chunked(&named, |(did, handle)| row![did.as_str(), *handle]) {
        let free = Statement::new(
            "WITH found (did, handle) AS ({rows})
             UPDATE users SET handle = 'handle.invalid' FROM found
             WHERE users.handle = found.handle AND users.did <> found.did AND users.handle <> 'handle.invalid'",
        );
        session.execute(free.each(chunk)).await?;
    }
    for chunk in chunked(found, |(did, handle, pds, due_at)| row![did.as_str(), *handle, *pds, *due_at]) {
        let update = Statement::new(
            "WITH found (did, handle, pds, due_at) AS ({rows})
             UPDATE users SET handle = COALESCE(found.handle, users.handle), pds = found.pds, identity_at = {now_us},
                 identity_failures = CASE WHEN found.due_at IS NULL THEN users.identity_failures ELSE 0 END,
                 identity_due_at =
                     CASE WHEN users.identity_due_at = found.due_at THEN NULL ELSE users.identity_due_at END
             FROM found WHERE users.did = found.did
                 AND (found.due_at IS NOT NULL OR users.handle <> COALESCE(found.handle, users.handle)
                     OR COALESCE(users.pds, '') <> COALESCE(found.pds, ''))",
        );
        session.execute(update.each(chunk)).await?;
    }
    Ok(())
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
             WHERE did IN ({rows})",
        );
        session.execute(update.each(chunk)).await?;
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
