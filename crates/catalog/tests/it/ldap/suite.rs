//! The suite, with each way of keeping passwords, as an admin with the least rights.

use mesh_catalog::ldap::LdapKind;

use super::bench::LdapBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_openldap_with_ssha() {
    judge(&LdapKind, &LdapBench::new(false).await, "ldap-openldap2.5").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_openldap_with_ssha512() {
    judge(
        &LdapKind,
        &LdapBench::new(true).await,
        "ldap-openldap2.5-ssha512",
    )
    .await;
}
