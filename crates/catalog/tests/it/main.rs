//! Every adapter of the catalogue, judged on real servers.

#[cfg(test)]
#[allow(dead_code, reason = "not every kind speaks TLS")]
mod authority;
#[cfg(test)]
#[cfg(feature = "dovecot")]
mod dovecot;
#[cfg(test)]
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(test)]
#[cfg(feature = "exec")]
mod exec;
#[cfg(test)]
#[allow(dead_code, reason = "not every kind has a fence")]
mod holders;
#[cfg(test)]
#[cfg(feature = "htpasswd")]
mod htpasswd;
#[cfg(test)]
mod judged;
#[cfg(test)]
#[cfg(feature = "ldap")]
mod ldap;
#[cfg(test)]
#[cfg(feature = "password_file")]
mod logins_file;
#[cfg(test)]
#[cfg(feature = "mariadb")]
mod mariadb;
#[cfg(test)]
#[cfg(feature = "mosquitto")]
mod mosquitto;
#[cfg(test)]
#[cfg(feature = "nats")]
mod nats;
#[cfg(test)]
#[allow(dead_code, reason = "not every kind asks for all of it")]
mod ours;
#[cfg(test)]
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(test)]
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(test)]
#[cfg(feature = "redis")]
mod redis;
#[cfg(test)]
mod wishes;

use mesh_catalog::catalogue;

/// Whoever is in the catalogue and not judged here fails the build. The table of all adapters is made from
/// the reports: no kind may be missing in it, nor in the one that people read first.
#[test]
fn a8_every_kind_in_the_catalogue_is_judged_and_has_a_report() {
    let (modules, readme) = (
        include_str!("main.rs"),
        include_str!("../../../../README.md"),
    );
    let reported = judged::reported();
    for kind in catalogue() {
        let name = kind.descriptor().kind;
        assert!(
            modules.contains(&format!("\nmod {name};\n")),
            "`{name}` has no bench: the suite must run on it"
        );
        let own = format!("{name}-");
        assert!(
            reported.iter().any(|name| name.starts_with(&own)),
            "`{name}` has no report: run its suite with MESH_TEST_REPORTS=write"
        );
        let row = format!("\n| `{name}` | ");
        assert!(readme.contains(&row), "README.md has no row for `{name}`");
    }
}

#[test]
fn a2_every_kind_describes_its_values_and_refuses_unknown_fields() {
    for kind in catalogue() {
        let name = kind.descriptor().kind;
        let schema = kind.values_schema();
        let properties = schema["properties"].as_object().expect("properties");
        assert!(!properties.is_empty(), "{name}");
        for (field, about) in properties {
            assert!(
                about["description"].is_string(),
                "{name}: `{field}` is not described"
            );
        }
        let unknown = serde_json::json!({ "no_such_field": 1 });
        let error = kind.parse_values(unknown).err().expect(name).to_string();
        assert!(error.contains("no_such_field"), "{name}: {error}");
    }
}
