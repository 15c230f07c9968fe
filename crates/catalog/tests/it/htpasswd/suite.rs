//! The suite, on a file.

use mesh_catalog::htpasswd::HtpasswdKind;

use super::bench::HtpasswdBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_password_file() {
    judge(&HtpasswdKind, &HtpasswdBench::new(), "htpasswd-2.4").await;
}
