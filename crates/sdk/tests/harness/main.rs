//! The driver on paused time: asking, applying, crashing, storing, stopping. Each test carries its rule.

#![expect(clippy::expect_used, reason = "helpers of tests fail loudly")]

mod applying;
mod asking;
mod beating;
mod crash;
mod reverse;
mod store;
mod support;
mod telling;
mod timing;
