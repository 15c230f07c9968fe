//! A gate before a server: what the server answers can be held back while the connection stands, and then
//! everything is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(crate) struct Gate {
    pub(crate) port: u16,
    mute: Arc<AtomicBool>,
    cuts: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Gate {
    pub(crate) async fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("bind");
        let port = listener.local_addr().expect("address").port();
        let mute = Arc::new(AtomicBool::new(false));
        let (cuts, cut) = watch::channel(0);
        let muted = Arc::clone(&mute);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
                    continue;
                };
                let (muted, mut cut) = (Arc::clone(&muted), cut.clone());
                cut.mark_unchanged();
                tokio::spawn(async move {
                    tokio::select! {
                        () = hand_on(client, server, &muted) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            port,
            mute,
            cuts,
            task,
        }
    }
    /// Swallows what the server says, or no longer.
    pub(crate) fn mute(&self, yes: bool) {
        self.mute.store(yes, Ordering::SeqCst);
    }
    /// Cuts every connection that stands.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn hand_on(client: TcpStream, server: TcpStream, mute: &AtomicBool) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let asks = tokio::io::copy(&mut from_client, &mut to_server);
    let answers = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let got = from_server.read(&mut buffer).await.unwrap_or(0);
            if got == 0 {
                return;
            }
            if !mute.load(Ordering::SeqCst) && to_client.write_all(&buffer[..got]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = asks => {}
        () = answers => {}
    }
}
