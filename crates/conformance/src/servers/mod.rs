//! Real servers as child processes: an own free port, an own folder, killed on drop, restartable.
//!
//! A server that is not installed is a failure that names `scripts/test`, never a silent skip.

mod amqp;
mod dovecot;
mod etcd;
mod exec;
mod htpasswd;
mod http;
mod jetstream;
mod ldap;
mod mariadb;
mod mosquitto;
mod nats;
mod podman;
mod postgres;
mod process;
mod proxy;
mod rabbitmq;
mod redis;
mod resp;
mod systemd;

use std::path::{Path, PathBuf};

pub use crate::basics::{Fault, Result, ServerError, free_port, until};
pub use amqp::AmqpClient;
pub use dovecot::{DovecotOptions, DovecotServer, ImapClient, dovecot_hash};
pub use etcd::{ETCD_ROOT, EtcdFlavor, EtcdServer};
pub use exec::{Example, ExampleProgram};
pub use htpasswd::{NginxServer, htpasswd};
pub use http::http;
pub use jetstream::{JetCluster, JetOptions, RawNats};
pub use ldap::{LdapOptions, LdapServer, PASSWORD as LDAP_PASSWORD};
pub use mariadb::{MariadbOptions, MariadbServer};
pub use mosquitto::{MOSQUITTO_ADMIN, MosquittoOptions, MosquittoServer, MqttClient};
pub use nats::{NATS_SYSTEM, NatsClient, NatsOptions, NatsServer};
pub use podman::PodmanServer;
pub use postgres::{PostgresFlavor, PostgresOptions, PostgresServer};
pub use proxy::Proxy;
pub use rabbitmq::{RABBIT_ADMIN, RabbitServer};
pub use redis::{Flavor, Options, RedisServer, TlsFiles};
pub use resp::{Reply, RespClient, encode};
pub use systemd::SystemdManager;

/// A server's program: the variable names one, or it lies under `.servers` of the workspace, or it is on
/// the PATH.
struct Program {
    variable: &'static str,
    installed: Option<&'static str>,
    on_path: Option<&'static str>,
}

impl Program {
    #[allow(
        clippy::disallowed_methods,
        reason = "the tests' variables are the only settings of this crate"
    )]
    fn find(&self, name: &str) -> Result<PathBuf> {
        if let Some(named) = std::env::var_os(self.variable).filter(|n| !n.is_empty()) {
            return Ok(PathBuf::from(named));
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let installed = self.installed.map(|path| root.join(path));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = self.on_path;
        // Not every user has the folder of the servers on the PATH.
        let usual = ["/usr/bin", "/usr/sbin"].map(PathBuf::from);
        let on_path = std::env::split_paths(&path)
            .chain(usual)
            .filter_map(|folder| on_path.map(|name| folder.join(name)));
        let mut candidates = installed.into_iter().chain(on_path);
        candidates.find(|program| program.is_file()).ok_or_else(|| {
            let message = format!(
                "{name} is not installed: run `scripts/test`, which installs it, or name a program in {}",
                self.variable
            );
            ServerError::new(message)
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..=part.len()].copy_from_slice(part);
        let block = u32::from_be_bytes(block);
        for sextet in 0..4 {
            let at = block >> (18 - 6 * sextet) & 63;
            text.push(match sextet <= part.len() {
                true => char::from(ALPHABET[at as usize]),
                false => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    //! What a test's author reads when something is missing or does not come.
    use super::*;

    #[test]
    fn a8_a_missing_server_is_a_failure_that_names_the_script() {
        let nowhere = Program {
            variable: "MESH_TEST_NO_SUCH_VARIABLE",
            installed: Some(".servers/no/such/server"),
            on_path: Some("no-such-server-anywhere"),
        };
        let error = nowhere
            .find("No server")
            .expect_err("not there")
            .to_string();
        assert!(
            error.contains("scripts/test") && error.contains("No server"),
            "{error}"
        );
    }
}
