//! What others tell: releases and deaths, on a connection that does nothing else.

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection};
use futures_util::{StreamExt, pin_mut};
use leased_actors::lease::News;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{RETRY_MAX, RETRY_MIN};
use crate::store::postgres::Sessions;
use crate::store::queries::beacons::CHANNEL;

/// Passes on what is told by any other backend than `own`. After each loss of the connection it listens anew and says
/// that news may have been lost.
pub(super) async fn listen(sessions: Sessions, own: i64, news: mpsc::Sender<News>) {
    let mut pause = RETRY_MIN;
    loop {
        if let Some(session) = begin(&sessions).await {
            pause = RETRY_MIN;
            let _ = news.try_send(News::Look);
            pass_on(session, own, &news).await;
            // Whatever ended this connection may have ended the beacon's: a renewal tells now, not when it is due.
            let _ = news.try_send(News::Look);
        }
        sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

async fn begin(sessions: &Sessions) -> Option<AsyncPgConnection> {
    let mut session = sessions.connect().await.ok()?;
    session.batch_execute(&format!("LISTEN {CHANNEL}")).await.ok()?;
    Some(session)
}

/// Until the connection is lost. Keepalives see to it that a silent one is.
async fn pass_on(mut session: AsyncPgConnection, own: i64, news: &mpsc::Sender<News>) {
    let told = session.notifications_stream();
    pin_mut!(told);
    while let Some(Ok(told)) = told.next().await {
        if i64::from(told.process_id) != own {
            let _ = news.try_send(decode(&told.payload));
        }
    }
}

fn decode(payload: &str) -> News {
    let freed = payload.strip_prefix("freed ").and_then(|name| name.parse().ok());
    freed.map_or(News::Look, News::Freed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_a_reason_to_look() {
        assert_eq!(decode("freed work"), News::Freed("work".parse().unwrap()));
        for other in ["dead 00000000000000000000000000000001", "freed NOT-A-NAME", "", "from the future"] {
            assert_eq!(decode(other), News::Look, "{other}");
        }
    }
}
