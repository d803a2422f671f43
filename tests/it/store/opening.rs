//! Opening the database: what is wrong is said, and a database that is away is missed only for as long as it is.

use std::time::{Duration, Instant};

use atcr_workers::store::{Database, OpenError, Options, SqlLeases, Tx, WriteError};
use leased_actors::lease::{LeaseStore, Renewal, Term};

use super::fixture::{Fixture, name, registration, trust};
use crate::support::eventually::eventually;
use crate::support::ports;
use crate::support::postgres::{Postgres, Stop};

async fn refused(url: &str) -> OpenError {
    let timeout = Duration::from_secs(2);
    let fixture = Fixture::empty_sqlite().await;
    let options =
        Options { url: url.into(), renew_timeout: timeout, stop_within: timeout, ..fixture.options.clone() };
    let begun = Instant::now();
    let Err(error) = Database::open(&options).await else { panic!("{url} was opened") };
    assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_the_address_is_said() {
    for url in
        ["", "mysql://here/db", "sqlite://", "postgres://here:port/db", "postgres://here/db?sslmode=maybe"]
    {
        let error = refused(url).await;
        assert!(matches!(error, OpenError::Url { .. }), "{url}: {error}");
    }
    let secret = refused("postgres://me:secret@here:port/db").await.to_string();
    assert!(!secret.contains("secret"), "{secret}");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_there_is_no_connection_is_said() {
    let closed = format!("postgres://me:secret@127.0.0.1:{}/db", ports::free_block(1));
    let error = refused(&closed).await;
    assert!(matches!(error, OpenError::Connect(_)), "{error}");
    assert!(error.to_string().contains("refused") && !error.to_string().contains("secret"), "{error}");

    let unknown = Postgres::shared().url("no_such_database");
    let error = refused(&unknown).await.to_string();
    assert!(error.contains("no_such_database"), "{error}");

    let error = refused("sqlite:///no/such/directory/atcr.db").await.to_string();
    assert!(error.contains("unable to open database file"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_found_again_by_the_same_terms() {
    let server = Postgres::private();
    let fixture = Fixture::empty_sqlite().await;
    let options = Options {
        url: server.fresh_database().await,
        renew_timeout: Duration::from_secs(4),
        stop_within: Duration::from_secs(4),
        ..fixture.options.clone()
    };
    let database = Database::open(&options).await.unwrap();
    database.migrate().await.unwrap();
    let (leases, me) = (SqlLeases::new(database.clone()), registration());
    leases.register(&me, &[name()]).await.unwrap();
    let claim = leases.claim(&name(), me.incarnation).await.unwrap().unwrap();
    let term = Term::new(claim.term, trust());
    let write = async |tx: &mut Tx| tx.save_cursor("v1", "host", 1).await;
    database.fenced(&term, write).await.unwrap();

    server.stop(Stop::Immediate);
    let begun = Instant::now();
    let failed = leases.renew(me.incarnation).await.unwrap_err();
    assert!(begun.elapsed() < options.renew_timeout + Duration::from_secs(2), "{failed}");
    let failed = database.fenced(&term, write).await.unwrap_err();
    assert!(matches!(failed, WriteError::Database(_)), "{failed}");

    server.start();
    eventually("renewals and writes come through", Duration::from_secs(30), async || {
        let renewed = leases.renew(me.incarnation).await;
        let written = database.fenced(&term, write).await;
        if matches!(renewed, Ok(Renewal::Alive(_))) && written.is_ok() {
            Ok(())
        } else {
            Err((renewed, written))
        }
    })
    .await;
}
