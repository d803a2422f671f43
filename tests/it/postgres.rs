//! The private PostgreSQL of the tests is what the other tests rely on: empty databases, real restarts, no left-overs.

use tokio_postgres::NoTls;

use crate::support::postgres::Postgres;

#[tokio::test]
async fn each_fresh_database_is_empty_and_its_own() {
    let server = Postgres::shared();
    for _ in 0..2 {
        let (client, connection) =
            tokio_postgres::connect(&server.fresh_database().await, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute("CREATE TABLE mine (id BIGINT)").await.unwrap();
    }
}
