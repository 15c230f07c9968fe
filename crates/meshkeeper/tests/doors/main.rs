//! The doors by which people come in: the package, the manual, the example.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

mod manual;
mod package;
