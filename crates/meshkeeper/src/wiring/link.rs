//! From what the manifest says of NATS servers to a link that the store can use.

use mesh_bus::jetstream::{Link, Login, Names, Role, Server, Tls};
use mesh_sdk::Secret;
use mesh_sdk::scrub::Scrubber;

use crate::manifest::{BusLogin, BusServer, NatsBus, SecretSource, SecretTrouble};

/// Where its servers are.
pub fn servers(bus: &NatsBus) -> Vec<Server> {
    let server = |server: &BusServer| Server {
        host: server.host.clone(),
        port: server.port,
        tls: server.tls,
    };
    bus.servers.iter().map(server).collect()
}

/// A link in a role. What is secret in it becomes known to the scrubber.
pub fn link(
    bus: &NatsBus,
    mesh: &str,
    role: Role,
    source: &dyn SecretSource,
    scrubber: &Scrubber,
) -> Result<Link, Vec<SecretTrouble>> {
    let read = bus.resolve(source)?;
    if let Some(secret) = &read.login {
        scrubber.add(secret.clone());
    }
    // The one line of a credentials file that is secret by itself.
    if let (BusLogin::Creds(_), Some(file)) = (&bus.login, &read.login) {
        let lines = file.expose_str().unwrap_or_default().lines().map(str::trim);
        for seed in lines.filter(|line| line.starts_with("SU")) {
            scrubber.add(Secret::from(seed));
        }
    }
    let login = match (&bus.login, read.login) {
        (BusLogin::Password { user, .. }, Some(password)) => Login::Password {
            user: user.clone(),
            password,
        },
        (BusLogin::Creds(_), Some(text)) => Login::Credentials(text),
        (BusLogin::Nkey(_), Some(seed)) => Login::Nkey(seed),
        (_, _) => Login::Open,
    };
    let of_role = || role.inbox(&Names::of(mesh));
    Ok(Link {
        servers: servers(bus),
        login,
        tls: Tls {
            ca_pem: read.ca_pem,
            client_pem: read.client_pem,
        },
        dangerously_plain: bus.dangerously_plain,
        inbox: Some(bus.inbox.clone().unwrap_or_else(of_role)),
    })
}
