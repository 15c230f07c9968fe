//! A TCP proxy between a client and a real server: it misbehaves on demand, and keeps what was asked.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::{Fault, Result};

/// What each connection's client sent, in the order of their making.
type Asked = Arc<Mutex<Vec<Vec<u8>>>>;
/// The clients' ends of the connections that are open, by number.
type Ends = Arc<Mutex<HashMap<u64, std::net::TcpStream>>>;

/// A proxy on a port of its own, ended on drop.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    fault: Arc<Mutex<Fault>>,
    asked: Asked,
    task: JoinHandle<()>,
    /// What becomes of the connections that are open.
    open: watch::Sender<Open>,
    ends: Ends,
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
        Self::far(server, Duration::ZERO).await
    }
    /// Before a server that is far away: each part of its answers comes so much later.
    pub async fn far(server: u16, later: Duration) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let fault = Arc::new(Mutex::new(Fault::None));
        let shared = Arc::clone(&fault);
        let asked = Asked::default();
        let kept = Arc::clone(&asked);
        let (open, fate) = watch::channel(Open::GoOn);
        let ends = Ends::default();
        let all = Arc::clone(&ends);
        let task = tokio::spawn(async move {
            let mut number = 0;
            while let Ok((client, _)) = listener.accept().await {
                number += 1;
                let end = Registered::new(number, &client, &all);
                let fault = shared.lock().map_or(Fault::None, |fault| *fault);
                let serving = serve(client, (server, later), fault, Arc::clone(&kept));
                let mut fate = fate.clone();
                fate.mark_unchanged();
                tokio::spawn(async move {
                    let _end = end;
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
            ends,
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
    /// Cuts the connections that are open, those that say nothing as well. When it returns they are cut.
    pub fn cut(&self) {
        let _ = self.open.send(Open::Cut);
        if let Ok(ends) = self.ends.lock() {
            // One that is over already cannot be shut.
            ends.values()
                .for_each(|end| drop(end.shutdown(Shutdown::Both)));
        }
    }
    /// Has nothing more come back by the connections that are open, as a firewall does that forgot them.
    pub fn mute(&self) {
        let _ = self.open.send(Open::Mute);
    }
}

/// Keeps a client's end at hand while it is served.
struct Registered {
    number: u64,
    all: Ends,
}

impl Registered {
    fn new(number: u64, client: &TcpStream, all: &Ends) -> Self {
        let end = client.as_fd().try_clone_to_owned();
        if let (Ok(end), Ok(mut ends)) = (end, all.lock()) {
            ends.insert(number, std::net::TcpStream::from(end));
        }
        let all = Arc::clone(all);
        Self { number, all }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Ok(mut ends) = self.all.lock() {
            ends.remove(&self.number);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(client: TcpStream, (server, later): (u16, Duration), fault: Fault, asked: Asked) {
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
    requests.spawn(hand_on(
        from_client,
        to_server,
        (usize::MAX, Duration::ZERO),
        keep,
    ));
    let answers = hand_on(from_server, to_client, (most, later), |_| ()).await;
    if stalls && answers.is_some() {
        // Both ends stay open until the client gives up.
        requests.join_next().await;
    }
}

/// Hands each part on so much later, until the end, or until `most` bytes went over: then it gives both halves back.
async fn hand_on<R, W>(
    mut from: R,
    mut to: W,
    (most, later): (usize, Duration),
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
        if !later.is_zero() {
            tokio::time::sleep(later).await;
        }
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
