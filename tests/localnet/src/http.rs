//! HTTP/1.1 by hand, as far as clients of the network use it, and able to break every promise of it.

mod answer;
mod connection;
mod listener;

pub(crate) use answer::{Answer, Manner};
pub(crate) use connection::{Connection, Request};
pub(crate) use listener::Listener;

/// Serves requests on one connection until the client ends it or the answer's manner does. What comes with an answer is
/// dropped when it is about to be whole.
pub(crate) async fn serve<T>(stream: tokio::net::TcpStream, respond: impl Fn(&Request) -> (Answer, T)) {
    let mut connection = Connection::new(stream);
    while let Ok(Some(request)) = connection.read_request().await {
        let (answer, held) = respond(&request);
        let reusable = matches!(answer.manner, Manner::Plain | Manner::Late { .. }) && !request.wants_close();
        let written = connection.write_answer(&answer, held).await;
        if written.is_err() || !reusable {
            return;
        }
    }
}
