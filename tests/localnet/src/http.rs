//! HTTP/1.1 by hand, as far as clients of the network use it, and able to break every promise of it.

mod answer;
mod connection;
mod listener;

pub(crate) use answer::{Answer, Manner};
pub(crate) use connection::{Connection, Request};
pub(crate) use listener::Listener;

/// Serves requests on one connection until the client ends it or the answer's manner does.
pub(crate) async fn serve(stream: tokio::net::TcpStream, respond: impl Fn(&Request) -> Answer) {
    let mut connection = Connection::new(stream);
    while let Ok(Some(request)) = connection.read_request().await {
        let answer = respond(&request);
        let reusable = answer.manner == Manner::Plain && !request.wants_close();
        if connection.write_answer(&answer).await.is_err() || !reusable {
            return;
        }
    }
}
