//! The driver on paused time: asking, applying, crashing, storing, stopping. Each test carries its rule.

mod applying;
mod asking;
mod crash;
mod store;
mod support;
mod telling;
mod timing;
