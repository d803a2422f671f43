//! The store on both databases: the same claims, a fresh and migrated database for each.

mod abrupt;
mod beacon_postgres;
mod beacon_sqlite;
mod cleanup;
mod crash_postgres;
mod fence;
pub(crate) mod fixture;
mod history;
mod identity;
mod index;
mod leases;
mod lessons;
mod migrations;
mod opening;
mod outbox;
mod plans;
mod requests;
pub(crate) mod samples;
mod stats;
mod supervised;

/// One test per claim and database. A claim is an `async fn(Fixture)`.
macro_rules! on_both {
    ($($claim:ident)*) => {
        mod sqlite {
            use crate::store::fixture::Fixture;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $claim() {
                    super::$claim(Fixture::sqlite().await).await;
                }
            )*
        }

        mod postgres {
            use crate::store::fixture::Fixture;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $claim() {
                    super::$claim(Fixture::postgres().await).await;
                }
            )*
        }
    };
}
pub(crate) use on_both;
