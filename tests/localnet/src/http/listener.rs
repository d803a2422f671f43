//! A listening socket on loopback, and every connection that it accepted.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// Connections held at once by one server; beyond it new ones are closed at once. A test that needs a thousand
/// clients fits, a runaway reconnect loop does not eat the machine's descriptors.
const CONNECTIONS_MAX: usize = 2_048;

/// Dropping it closes the socket and ends the task of every connection.
#[derive(Debug)]
pub(crate) struct Listener {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl Listener {
    /// Binds 127.0.0.1 (`port` 0: any free one) and hands each connection to `serve`.
    pub(crate) async fn start<S, F>(port: u16, serve: S) -> io::Result<Self>
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, serve)));
        Ok(Self { address, _accepting: accepting })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept<S, F>(listener: TcpListener, serve: S)
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    // Owned here, so that the end of this task aborts every connection.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < CONNECTIONS_MAX => {
                    // Small frames must not wait for an acknowledgement, or latencies measured are TCP's.
                    let _ = stream.set_nodelay(true);
                    connections.spawn(serve(stream));
                }
                Ok(_) => {}
                // Out of descriptors: give the connections that are ending a moment to do so.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
