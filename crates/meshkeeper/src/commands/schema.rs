//! `mesh schema`: the manifest's JSON Schema.

use super::Context;
use crate::errors::{EXIT_FAILED, Fault};
use crate::manifest::schema;

pub(super) fn run(cx: &Context<'_>) -> Result<u8, Fault> {
    let schema = schema::manifest(cx.kinds);
    match serde_json::to_string_pretty(&schema) {
        Ok(text) => cx.printer.answer(&text),
        Err(_) => return Ok(EXIT_FAILED),
    }
    Ok(0)
}
