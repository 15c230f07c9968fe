//! stub
pub mod bus;
pub mod report;
