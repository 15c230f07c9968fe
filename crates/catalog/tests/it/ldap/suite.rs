//! The suite, with each way of keeping passwords, as an admin with the least rights.

use mesh_catalog::ldap::LdapKind;

use super::bench::LdapBench;
use crate::judged::judge;

#[tokio::test(flavor = "multi_thread")]
async fn a8_openldap_with_ssha() {
    judge(
        &LdapKind,
        &LdapBench::new(false, false).await,
        "ldap-openldap2.5",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_openldap_with_ssha512() {
    judge(
        &LdapKind,
        &LdapBench::new(true, false).await,
        "ldap-openldap2.5-ssha512",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_openldap_without_a_policy() {
    judge(
        &LdapKind,
        &LdapBench::new(false, true).await,
        "ldap-openldap2.5-no-policy",
    )
    .await;
}
