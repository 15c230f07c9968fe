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
    assert_eq!(written, 2 * MANY as u64, "a user and a permission each");
    assert!(ours.all_held(&wishes).await);
    assert_eq!(requests(&proxy, &["GET /"]), asked + 3);
    assert!(ours.create_all(&wishes).await.iter().all(Result::is_ok));
    assert_eq!(writes(&proxy), written, "again changes nothing");
}

/// Before a server: one request at a time is let through, and of the rest every second one; the others
/// are told to come back. Counts what came.
async fn turnstile(server: u16) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (count, busy) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (counted, busy) = (Arc::clone(&counted), Arc::clone(&busy));
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", server))
                    .await
                    .expect("there");
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(got @ 1..) = client.read(&mut buffer).await {
                    let at = counted.fetch_add(1, Ordering::SeqCst);
                    let alone = busy.fetch_add(1, Ordering::SeqCst) == 0;
                    let (limited, ill) = (!alone || at % 50 == 49, at % 100 == 99);
                    if limited || ill {
                        busy.fetch_sub(1, Ordering::SeqCst);
                        let status = if ill { "503 Ill" } else { "429 Slow" };
                        let answer = format!(
                            "HTTP/1.1 {status}\r\nretry-after: 2\r\ncontent-length: 0\r\n\r\n"
                        );
                        let _ = client.write_all(answer.as_bytes()).await;
                        continue;
                    }
                    let _ = server.write_all(&buffer[..got]).await;
                    hand_answer(&mut server, &mut client).await;
                    busy.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    (port, count)
}

/// One answer, whose length it says.
async fn hand_answer(server: &mut TcpStream, client: &mut TcpStream) {
    let mut answer = Vec::new();
    loop {
        let mut buffer = vec![0; 64 * 1024];
        let got = server.read(&mut buffer).await.unwrap_or(0);
        answer.extend_from_slice(&buffer[..got]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else {
            if got == 0 {
                return;
            }
            continue;
        };
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|n| n.parse().ok()).unwrap_or(0);
        if got == 0 || answer.len() >= head.len() + 4 + length {
            break;
        }
    }
    let _ = client.write_all(&answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn o25_a_server_that_says_not_now_is_not_stormed_and_all_are_made_in_the_end() {
    const LOST: usize = 200;
    let rabbit = server(None).await;
    let (port, count) = turnstile(rabbit.port()).await;
    let ours = Ours::on(settings(port));
    let wishes = many(LOST);
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
    let asked = count.load(Ordering::SeqCst);
    // Two writes each, and at every round a look and what was under way when it ended.
    assert!(
        asked <= 2 * LOST + 20 * (rounds + 1),
        "{asked} requests in {rounds} rounds"
    );
}
