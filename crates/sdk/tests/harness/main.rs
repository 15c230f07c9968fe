//! The driver on paused time: asking, applying, crashing, storing, stopping. Each test carries its rule.

mod applying;
mod asking;
mod support;
mod timing;
