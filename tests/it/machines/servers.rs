//! A PostgreSQL that lets nobody in: each reason is told with the place, with what to look at, and without the password.

use super::{Started, says};
use crate::support::{place::Place, ports, postgres::Postgres};

#[tokio::test(flavor = "multi_thread")]
async fn each_reason_why_a_server_lets_nobody_in_is_told_with_what_to_look_at() {
    let server = Postgres::shared();
    let place = Place::on(server).await;
    let right = place.url().to_owned();
    let password = right.split(['@', ':']).nth(2).unwrap().to_owned();
    let port = ports::free_block(1);
    let cases = [
        (right.replace(&password, "hunter2"), "password authentication failed", "database.url"),
        (right.replace("//postgres:", "//stranger:"), "stranger", "database.url"),
        (server.url("missing"), "does not exist", "createdb"),
        (format!("postgres://me:hunter2@127.0.0.1:{port}/atcr"), "refused", "is the server up"),
        (
            "postgres://me:hunter2@no.such.host.invalid/atcr".to_owned(),
            "no.such.host.invalid",
            "is the server up",
        ),
    ];
    for (url, reason, advice) in cases {
        let at = url.rsplit('@').next().unwrap().split('/').next().unwrap();
        for command in ["run", "leases"] {
            let end = Started::new(&[], &[command], &url).end();
            assert!(!end.1.contains("hunter2") && !end.1.contains(&password), "{}", end.1);
            says(end, 1, &["open the database", reason, advice, at]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_make_tables_is_told_so() {
    let server = Postgres::shared();
    let place = Place::on(server).await;
    let name = place.url().rsplit('/').next().unwrap().to_owned();
    server
        .execute(&format!(
            "DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'reader';
             REVOKE ALL ON DATABASE {name} FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO reader"
        ))
        .await;
    place.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC").await;
    let host = place.url().rsplit('@').next().unwrap();
    let url = format!("postgres://reader:reader@{host}");
    says(Started::new(&[], &["run"], &url).end(), 1, &["migrate the database", "permission denied"]);
}
