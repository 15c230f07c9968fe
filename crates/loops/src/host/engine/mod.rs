//! What runs things on a host: looked at, and told what to do.

pub mod docker;
mod http;
pub mod systemd;

use async_trait::async_trait;
use mesh_sdk::Time;

use super::decide::{Credentials, Found, Image, Step};
use super::order::{Order, Thing};
use super::record::Record;
use docker::Docker;
use systemd::Systemd;

/// What a look found.
#[derive(Debug, Clone)]
pub struct Look {
    /// The image that is asked for.
    pub image: Image,
    /// What runs.
    pub found: Found,
}

/// What a thing is made with beside what the manifest says.
#[derive(Debug, Clone, Copy)]
pub struct With<'w> {
    /// What was brought to its consumer.
    pub credentials: &'w Credentials,
    /// Since when that lies there, where it can be told.
    pub laid: Option<Time>,
    /// What is remembered of it.
    pub record: &'w Record,
}

/// Looks at things, and makes and starts them. Only what it made itself is ever changed.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Reads only.
    async fn look(&self, order: &Order, with: With<'_>) -> Look;
    /// Does one step. Errors: for people, without secrets; the thing may be gone, standing still, or as before.
    async fn act(&self, order: &Order, step: Step, with: With<'_>) -> Result<(), String>;
}

/// The engines of this host.
pub struct Engines {
    /// Containers.
    pub docker: Docker,
    /// Units.
    pub systemd: Systemd,
}

#[async_trait]
impl Engine for Engines {
    async fn look(&self, order: &Order, with: With<'_>) -> Look {
        match &order.thing {
            Thing::Container(container) => self.docker.look(&order.consumer, container).await,
            Thing::Unit(unit) => Look {
                image: Image::Needless,
                found: self.systemd.look(unit, with).await,
            },
        }
    }
    async fn act(&self, order: &Order, step: Step, with: With<'_>) -> Result<(), String> {
        match &order.thing {
            Thing::Container(container) => {
                self.docker
                    .act(&order.consumer, container, step, with.credentials)
                    .await
            }
            Thing::Unit(unit) => self.systemd.act(unit, step).await,
        }
    }
}
