//! Many logins: few calls, bounded work, and nobody forgotten (H-16, O-25).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mesh_conformance::servers::Proxy;
use mesh_sdk::{Class, Wish};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::bench::{requests, settings, writes};
use super::{Ours, server, wish};

fn many(count: usize) -> Vec<Wish> {
    let of = |n: usize| {
        let name = format!("app-{n:05}");
        let values =
            json!({ "vhost": "/", "write": format!("^{name}"), "read": format!("^{name}") });
        wish(&name, values)
    };
    (0..count).map(of).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn h16_a_pass_over_many_is_three_calls() {
    const MANY: usize = 3_000;
    let rabbit = server(None).await;
    let proxy = Proxy::before(rabbit.port()).await.expect("a proxy");
    let ours = Ours::on(settings(proxy.port()));
    let wishes = many(MANY);
    assert!(ours.create_all(&wishes).await.iter().all(Result::is_ok));
    let (written, asked) = (writes(&proxy), requests(&proxy, &["GET /"]));
    assert_eq!(written, 3, "1,000 users with their permissions in each");
    assert_eq!(
        asked, 2,
        "all users, of whom none is asked for, and the virtual hosts"
    );
    assert!(ours.all_held(&wishes).await);
    assert_eq!(requests(&proxy, &["GET /"]), asked + 3);
    assert!(ours.create_all(&wishes).await.iter().all(Result::is_ok));
    assert_eq!(writes(&proxy), written, "again changes nothing");
}

/// How a server is ill.
#[derive(Clone, Copy)]
struct Ill {
    /// Of those that are alone, every so many-th is told to come back, and every second of these that the
    /// server is ill.
    limit: usize,
    /// So many imports are told this.
    imports: (usize, &'static str),
}

/// Before a server: one request at a time is let through, if the server is not ill. Counts what came.
async fn turnstile(server: u16, how: Ill) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (count, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, imports) = (Arc::clone(&count), Arc::new(AtomicUsize::new(0)));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (counted, busy) = (Arc::clone(&counted), Arc::clone(&busy));
            let imports = Arc::clone(&imports);
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", server))
                    .await
                    .expect("there");
                while let Some(request) = one_message(&mut client).await {
                    let at = counted.fetch_add(1, Ordering::SeqCst);
                    let alone = busy.fetch_add(1, Ordering::SeqCst) == 0;
                    let limited = !alone || at % how.limit == how.limit - 1;
                    let ill = at % (2 * how.limit) == 2 * how.limit - 1;
                    let import = request.starts_with(b"POST /api/definitions")
                        && imports.fetch_add(1, Ordering::SeqCst) < how.imports.0;
                    let status = match (import, ill, limited) {
                        (true, ..) => Some(how.imports.1),
                        (_, true, _) => Some("503 Ill"),
                        (_, _, true) => Some("429 Slow"),
                        _ => None,
                    };
                    if let Some(status) = status {
                        busy.fetch_sub(1, Ordering::SeqCst);
                        let answer = format!(
                            "HTTP/1.1 {status}\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n"
                        );
                        let _ = client.write_all(answer.as_bytes()).await;
                        continue;
                    }
                    let _ = server.write_all(&request).await;
                    let answer = one_message(&mut server).await.unwrap_or_default();
                    // Whoever has its answer may ask again at once.
                    busy.fetch_sub(1, Ordering::SeqCst);
                    let _ = client.write_all(&answer).await;
                }
            });
        }
    });
    (port, count)
}

/// One request or answer, whose length it says.
async fn one_message(from: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let mut buffer = vec![0; 64 * 1024];
        let got = from.read(&mut buffer).await.ok().filter(|got| *got > 0)?;
        message.extend_from_slice(&buffer[..got]);
        let text = String::from_utf8_lossy(&message).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|n| n.parse().ok()).unwrap_or(0);
        if message.len() >= head.len() + 4 + length {
            return Some(message);
        }
    }
}

/// Makes so many until all are made. Answers in how many rounds, and with how many requests.
async fn until_all_are_made(lost: usize, how: Ill) -> (usize, usize) {
    let rabbit = server(None).await;
    let (port, count) = turnstile(rabbit.port(), how).await;
    let ours = Ours::on(settings(port));
    let wishes = many(lost);
    let mut rounds = 0;
    loop {
        let outcomes = ours.create_all(&wishes).await;
        let failed: Vec<Class> = outcomes
            .into_iter()
            .filter_map(Result::err)
            .map(|error| error.class())
            .collect();
        assert!(
            failed.iter().all(|class| *class == Class::Busy),
            "{failed:?}"
        );
        if failed.is_empty() {
            break;
        }
        rounds += 1;
        assert!(rounds < 200, "no end");
    }
    assert!(rounds > 0, "it never said so");
    let direct = Ours::on(settings(rabbit.port()));
    assert!(direct.all_held(&wishes).await);
    (rounds, count.load(Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread")]
async fn o25_a_server_that_says_not_now_is_not_stormed_and_all_are_made_in_the_end() {
    const LOST: usize = 200;
    // Nothing is ever imported: all are made one by one.
    let how = Ill {
        limit: 50,
        imports: (usize::MAX, "405 Never"),
    };
    let (rounds, asked) = until_all_are_made(LOST, how).await;
    // Two writes each, and at every round the looks, an import and what was under way when it ended.
    assert!(
        asked <= 2 * LOST + 24 * (rounds + 1),
        "{asked} requests in {rounds} rounds"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn o25_an_import_that_is_told_not_now_is_not_made_one_by_one() {
    let how = Ill {
        limit: 1_000_000,
        imports: (2, "503 Ill"),
    };
    let (rounds, asked) = until_all_are_made(200, how).await;
    // All users, the virtual hosts, the import.
    assert_eq!((rounds, asked), (2, 3 * 3));
}
