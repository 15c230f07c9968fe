//! A TCP proxy between a client and a real server: it misbehaves on demand, and keeps what was asked.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Fault, Result};

/// What each connection's client sent, in the order of their making.
type Asked = Arc<Mutex<Vec<Vec<u8>>>>;

/// A proxy on a port of its own, ended on drop.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    fault: Arc<Mutex<Fault>>,
    asked: Asked,
    task: JoinHandle<()>,
    /// What becomes of the connections that are open.
    open: watch::Sender<Open>,
}

/// What becomes of connections that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    GoOn,
    Mute,
    Cut,
}

impl Proxy {
    /// Before a server on a port of this machine.
    pub async fn before(server: u16) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let fault = Arc::new(Mutex::new(Fault::None));
        let shared = Arc::clone(&fault);
        let asked = Asked::default();
        let kept = Arc::clone(&asked);
        let (open, fate) = watch::channel(Open::GoOn);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let fault = shared.lock().map_or(Fault::None, |fault| *fault);
                let serving = serve(client, server, fault, Arc::clone(&kept));
                let mut fate = fate.clone();
                fate.mark_unchanged();
                tokio::spawn(async move {
                    let mut serving = std::pin::pin!(serving);
                    let changed = tokio::select! {
                        () = &mut serving => return,
                        changed = fate.changed() => changed,
                    };
                    match changed.map(|()| *fate.borrow_and_update()) {
                        Ok(Open::Cut) => {}
                        // It stays open until it is cut.
                        Ok(Open::Mute) => drop(fate.changed().await),
                        // The proxy is gone, and takes nobody with it.
                        Ok(Open::GoOn) | Err(_) => serving.await,
                    }
                });
            }
        });
        Ok(Self {
            port,
            fault,
            asked,
            task,
            open,
        })
    }
    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }
    /// What the clients sent, one entry a connection. Connections that were held silent have none.
    pub fn asked(&self) -> Vec<Vec<u8>> {
        self.asked
            .lock()
            .map(|asked| asked.clone())
            .unwrap_or_default()
    }
    /// Forgets what was sent up to now by connections that are over.
    pub fn forget(&self) {
        if let Ok(mut asked) = self.asked.lock() {
            asked.iter_mut().for_each(Vec::clear);
        }
    }
    /// Sets the fault of later connections.
    pub fn set(&self, fault: Fault) {
        if let Ok(mut now) = self.fault.lock() {
            *now = fault;
        }
    }
    /// Cuts the connections that are open, those that say nothing as well.
    pub fn cut(&self) {
        let _ = self.open.send(Open::Cut);
    }
    /// Has nothing more come back by the connections that are open, as a firewall does that forgot them.
    pub fn mute(&self) {
        let _ = self.open.send(Open::Mute);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(client: TcpStream, server: u16, fault: Fault, asked: Asked) {
    let (most, stalls) = match fault {
        Fault::None => (usize::MAX, false),
        Fault::Silent => return hold(client).await,
        Fault::StallAfter(most) => (most, true),
        Fault::CutAfter(most) => (most, false),
    };
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let slot = asked.lock().map_or(0, |mut asked| {
        asked.push(Vec::new());
        asked.len() - 1
    });
    let keep = move |bytes: &[u8]| {
        if let Ok(mut asked) = asked.lock()
            && let Some(kept) = asked.get_mut(slot)
        {
            kept.extend_from_slice(bytes);
        }
    };
    // Dropped, it ends with the connection.
    let mut requests = JoinSet::new();
    requests.spawn(hand_on(from_client, to_server, usize::MAX, keep));
    let answers = hand_on(from_server, to_client, most, |_| ()).await;
    if stalls && answers.is_some() {
        // Both ends stay open until the client gives up.
        requests.join_next().await;
    }
}

/// Hands on until the end, or until `most` bytes went over: then it gives both halves back.
async fn hand_on<R, W>(
    mut from: R,
    mut to: W,
    most: usize,
    keep: impl Fn(&[u8]) + Send,
) -> Option<(R, W)>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut left = most;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let got = from.read(&mut buffer).await.unwrap_or(0);
        if got == 0 {
            return None;
        }
        keep(&buffer[..got]);
        let part = got.min(left);
        to.write_all(&buffer[..part]).await.ok()?;
        left -= part;
        if left == 0 {
            return Some((from, to));
        }
    }
}

async fn hold(mut client: TcpStream) {
    let mut buffer = [0; 1024];
    while client.read(&mut buffer).await.is_ok_and(|got| got > 0) {}
}
