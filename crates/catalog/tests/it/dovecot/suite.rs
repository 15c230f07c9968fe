//! The suite, on a file that a Dovecot reads.

use mesh_catalog::dovecot::DovecotKind;

use super::bench::DovecotBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_file_that_dovecot_reads() {
    let bench = match DovecotBench::start().await {
        Ok(bench) => bench,
        Err(error) => panic!("{error}"),
    };
    judge(&DovecotKind, &bench, "dovecot-2.3").await;
}
