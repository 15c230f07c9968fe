//! The desk as a service on the NATS servers of the bus: `mesh.ID.svc.task.WORD`.

use std::sync::Arc;

use mesh_bus::JetstreamBus;
use mesh_bus::jetstream::Reply;
use mesh_sdk::bus::Fault;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Desk;
use super::message;

pub(super) async fn serve(
    servers: &JetstreamBus,
    mesh: &str,
    desk: Arc<Desk>,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, Fault> {
    let answer = move |word: &'static str, bytes: Vec<u8>| {
        let desk = Arc::clone(&desk);
        async move {
            let outcome = desk.answer_bytes(Some(word), &bytes).await;
            let refused = outcome.as_ref().err();
            Reply {
                body: message::answer(&outcome).into_bytes(),
                // A header's value is one line.
                refused: refused.map(|r| (r.code.number(), r.message.replace(['\r', '\n'], " "))),
            }
        }
    };
    servers.serve(mesh, answer, stop.cancelled_owned()).await
}
