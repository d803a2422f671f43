//! Migrations: both ways, and by many at once.

use atcr_workers::store::{Database, MigrateError};
use tokio::task::JoinSet;

use super::fixture::Fixture;

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn all_migrations_go_up_down_and_up_again() {
        super::all_migrations_go_up_down_and_up_again(Fixture::empty_sqlite().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn six_that_start_at_once_on_an_empty_database_all_come_up() {
        super::six_that_start_at_once_on_an_empty_database_all_come_up(Fixture::empty_sqlite().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_of_a_newer_version_is_refused() {
        super::a_database_of_a_newer_version_is_refused(Fixture::sqlite().await).await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn all_migrations_go_up_down_and_up_again() {
        super::all_migrations_go_up_down_and_up_again(Fixture::empty_postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn six_that_start_at_once_on_an_empty_database_all_come_up() {
        super::six_that_start_at_once_on_an_empty_database_all_come_up(Fixture::empty_postgres().await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_of_a_newer_version_is_refused() {
        super::a_database_of_a_newer_version_is_refused(Fixture::postgres().await).await;
    }
}

async fn all_migrations_go_up_down_and_up_again(fixture: Fixture) {
    let database = &fixture.database;
    let pending = database.pending_migrations().await.unwrap();
    assert!(pending.len() >= 2, "{pending:?}");
    assert_eq!(database.migrate().await.unwrap(), pending);
    assert_eq!(database.migrate().await.unwrap(), Vec::<String>::new());
    assert_eq!(database.revert_migrations().await.unwrap(), pending);
    assert_eq!(database.pending_migrations().await.unwrap(), pending);
    assert_eq!(database.migrate().await.unwrap(), pending);
    assert!(fixture.database.known_dids().await.unwrap().is_empty());
}

async fn six_that_start_at_once_on_an_empty_database_all_come_up(fixture: Fixture) {
    let mut starting = JoinSet::new();
    for _ in 0..6 {
        let options = fixture.options.clone();
        starting.spawn(async move {
            let database = Database::open(&options).await.unwrap();
            let applied = database.migrate().await.unwrap().len();
            (applied, database.known_dids().await.unwrap().len())
        });
    }
    let mut outcomes = starting.join_all().await;
    outcomes.sort();
    let (last, others) = outcomes.split_last().unwrap();
    assert!(last.0 >= 2, "nobody migrated");
    assert!(others.iter().all(|outcome| *outcome == (0, 0)), "{others:?}");
}

async fn a_database_of_a_newer_version_is_refused(fixture: Fixture) {
    fixture.execute("INSERT INTO __diesel_schema_migrations (version) VALUES ('20990101000000')").await;
    let error = fixture.database.migrate().await.unwrap_err();
    assert!(matches!(&error, MigrateError::Newer(unknown) if unknown == "20990101000000"), "{error}");
    assert!(error.to_string().contains("newer version"));
    assert!(fixture.database.pending_migrations().await.is_err());
}
