//! `mesh demo`: a Redis of its own, broken in several ways and healed each time, seen on the server.

mod folder;
mod players;
mod server;
mod stage;
mod steps;
mod teller;
mod wire;

use super::Context;
use super::online::Online;
use super::status;
use crate::errors::Fault;
use crate::settings::Settings;
use folder::Folder;
use server::{Program, Server};
use stage::Stage;
use teller::Teller;

/// Runs it.
pub(super) fn run(cx: &Context<'_>) -> Result<u8, Fault> {
    let program = Program::find()?;
    // What a daemon would warn of is what is shown here anyway.
    let mut settings: Settings = cx.settings.clone();
    if settings.log.filter == "warn" {
        settings.log.filter = "error".to_owned();
    }
    let cx = &Context {
        settings: &settings,
        ..*cx
    };
    let online = Online::start(cx)?;
    let folder = Folder::make()?;
    let outcome = online.run(async {
        tokio::spawn(hang_up(online.stop.clone()));
        show(cx, &online, &folder, program).await
    });
    outcome.map(|()| 0)
}

/// A terminal that goes away stops it too, so that nothing stays behind.
async fn hang_up(stop: tokio_util::sync::CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut hangup), Ok(mut quit)) = (signal(SignalKind::hangup()), signal(SignalKind::quit()))
    else {
        return;
    };
    tokio::select! {
        _ = hangup.recv() => {}
        _ = quit.recv() => {}
    }
    stop.cancel();
}

async fn show(
    cx: &Context<'_>,
    online: &Online,
    folder: &Folder,
    program: Program,
) -> Result<(), Fault> {
    let teller = Teller::new(cx.printer, online.clock);
    let server = Server::first(program, folder.path()).await?;
    teller.show(&format!(
        "A server of the demo's own: {} on 127.0.0.1:{}, which keeps nothing on disk. A manifest with\n\
         five consumers, each looked at every {} s, and the loops of `mesh up` beside it. All of it is in\n\
         {}, and gone at the end.",
        server.title(),
        server.port,
        players::VERIFY_EVERY.as_secs(),
        folder.path().display(),
    ));
    let mut stage = Stage::open(cx, online, folder, server, teller).await?;
    let outcome = scenes(cx, &mut stage).await;
    if let Err(fault) = &outcome {
        stage.teller.missed(&fault.to_string());
    }
    stage.close().await;
    outcome
}

async fn scenes(cx: &Context<'_>, stage: &mut Stage<'_>) -> Result<(), Fault> {
    steps::provisioned(stage).await?;
    steps::restarted(stage).await?;
    steps::changed(stage).await?;
    steps::disabled(stage).await?;
    steps::still(stage).await?;
    last(cx, stage).await
}

/// The screen of `mesh status`, and what to type next.
async fn last(cx: &Context<'_>, stage: &mut Stage<'_>) -> Result<(), Fault> {
    stage.teller.step("status", "What `mesh status` shows now");
    let picture = stage.picture().await?;
    if cx.printer.is_json() {
        stage.teller.done(serde_json::json!({ "status": picture }));
        return Ok(());
    }
    stage.teller.rest();
    status::show(cx, &picture);
    cx.printer.answer(
        "\nNext, with a server of your own: `mesh init` writes a first manifest, `mesh check` reads it, and\n\
         `mesh up` keeps it so.",
    );
    Ok(())
}
