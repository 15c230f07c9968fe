//! Who is let in: a bounded number of connections, encrypted where that is asked, and none that stands still.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use super::Page;
use crate::errors::Fault;

/// What a reader may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at once; further ones wait to be taken up.
    pub connections: usize,
    /// A reader that takes nothing of what waits for it is dropped after so long.
    pub stalled: Duration,
    /// A connection on which nothing moves is dropped after so long.
    pub idle: Duration,
    /// Open requests may go on for so long after a stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            stalled: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            drain: Duration::from_secs(2),
        }
    }
}

/// Listens, and serves until the stop. Errors: an address that is taken.
pub async fn listen(
    address: SocketAddr,
    (page, app): (Arc<Page>, Router),
    limits: Limits,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, Fault> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Fault::failed(
            format!("cannot listen on {address}: {error}"),
            "choose another port",
        )
    })?;
    let address = listener.local_addr().unwrap_or(address);
    info!(%address, "serving the page, health, metrics and status");
    let tls = page.access.door.tls.clone();
    let (door, taken) = mpsc::channel(1);
    let letting_in = tokio::spawn(let_in(listener, tls, limits, door));
    let keeping = tokio::spawn(Arc::clone(&page).keep(stop.clone()));
    let ended = stop.clone();
    let serving = axum::serve(Taken { taken, address }, app)
        .with_graceful_shutdown(async move { ended.cancelled().await });
    Ok(tokio::spawn(async move {
        let patience = async {
            stop.cancelled().await;
            letting_in.abort();
            tokio::time::sleep(limits.drain).await;
        };
        tokio::select! {
            _ = serving.into_future() => {}
            () = patience => {}
        }
        drop(keeping.await);
    }))
}

/// A connection, encrypted or not.
type Stream = Box<dyn Duplex>;
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Takes connections up and greets them, each on its own: one that says nothing keeps nobody out.
async fn let_in(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: Limits,
    door: mpsc::Sender<(Guarded, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (stream, from) = match listener.accept().await {
            Ok(taken) => taken,
            Err(error) => {
                // Too many open files, say: it passes.
                debug!(%error, "a connection was not taken up");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        drop(stream.set_nodelay(true));
        let (tls, door) = (tls.clone(), door.clone());
        tokio::spawn(async move {
            let greeted = tokio::time::timeout(limits.stalled, greet(stream, tls)).await;
            if let Ok(Ok(stream)) = greeted {
                drop(door.send((Guarded::new(stream, place, limits), from)).await);
            }
        });
    }
}

async fn greet(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>) -> io::Result<Stream> {
    match tls {
        None => Ok(Box::new(stream)),
        Some(config) => Ok(Box::new(TlsAcceptor::from(config).accept(stream).await?)),
    }
}

/// Connections that were let in, as the server takes them.
struct Taken {
    taken: mpsc::Receiver<(Guarded, SocketAddr)>,
    address: SocketAddr,
}

impl axum::serve::Listener for Taken {
    type Io = Guarded;
    type Addr = SocketAddr;
    async fn accept(&mut self) -> (Guarded, SocketAddr) {
        match self.taken.recv().await {
            Some(taken) => taken,
            None => std::future::pending().await,
        }
    }
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// A connection that ends by itself when nothing moves on it.
struct Guarded {
    stream: Stream,
    limits: Limits,
    /// Until when something must move.
    patience: Pin<Box<Sleep>>,
    /// Something waits to be taken by the reader.
    stalls: bool,
    _place: OwnedSemaphorePermit,
}

impl Guarded {
    fn new(stream: Stream, place: OwnedSemaphorePermit, limits: Limits) -> Self {
        Self {
            stream,
            patience: Box::pin(tokio::time::sleep(limits.idle)),
            stalls: false,
            limits,
            _place: place,
        }
    }
    fn moved(&mut self) {
        self.stalls = false;
        self.patience
            .as_mut()
            .reset(Instant::now() + self.limits.idle);
    }
    /// Something waits for the reader from now on.
    fn waits(&mut self) {
        if !self.stalls {
            self.stalls = true;
            self.patience
                .as_mut()
                .reset(Instant::now() + self.limits.stalled);
        }
    }
    fn over(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.patience.as_mut().poll(cx));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "nothing moved"))
    }
    fn wrote<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(result) => {
                self.moved();
                Poll::Ready(result)
            }
            Poll::Pending => {
                self.waits();
                self.over(cx).map(Err)
            }
        }
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buffer) {
            Poll::Ready(result) => {
                if !self.stalls {
                    self.moved();
                }
                Poll::Ready(result)
            }
            Poll::Pending => self.over(cx).map(Err),
        }
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(result) => Poll::Ready(result),
            Poll::Pending => self.wrote(cx, Poll::Pending),
        }
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    //! S-6: a reader that does not read is dropped, one that reads slowly is not.
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    const LIMITS: Limits = Limits {
        connections: 1,
        stalled: Duration::from_secs(20),
        idle: Duration::from_secs(60),
        drain: Duration::from_secs(2),
    };

    fn pair() -> (Guarded, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(64);
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned();
        let guarded = Guarded::new(Box::new(ours), place.expect("a place"), LIMITS);
        (guarded, theirs)
    }

    #[tokio::test(start_paused = true)]
    async fn s6_a_reader_that_takes_nothing_is_dropped() {
        let (mut ours, _theirs) = pair();
        let began = Instant::now();
        let ended = ours.write_all(&[0; 1_000]).await;
        assert_eq!(ended.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
        assert_eq!(began.elapsed(), LIMITS.stalled);
    }

    #[tokio::test(start_paused = true)]
    async fn s6_a_reader_that_is_slow_is_waited_for() {
        let (mut ours, mut theirs) = pair();
        let reading = tokio::spawn(async move {
            let (mut bytes, mut count) = ([0; 10], 0);
            while count < 1_000 {
                tokio::time::sleep(LIMITS.stalled / 2).await;
                count += theirs.read(&mut bytes).await.expect("read");
            }
            count
        });
        ours.write_all(&[0; 1_000]).await.expect("all is taken");
        drop(ours);
        assert_eq!(reading.await.expect("ended"), 1_000);
    }

    #[tokio::test(start_paused = true)]
    async fn s6_a_connection_on_which_nothing_moves_is_dropped() {
        let (mut ours, _theirs) = pair();
        let began = Instant::now();
        let ended = ours.read_u8().await;
        assert_eq!(ended.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
        assert_eq!(began.elapsed(), LIMITS.idle);
    }
}
