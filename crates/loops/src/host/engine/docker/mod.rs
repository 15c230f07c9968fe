//! Containers, over the API that Docker and Podman share.
//!
//! A container is made beside the one that it follows and takes its name only then: one that cannot be made leaves
//! the other as it is. Ours are known by a mark among their labels, which nobody makes without the installation's
//! key; whatever has not the mark is never touched. Volumes are never removed.

mod shape;

use std::path::Path;
use std::time::Duration;

use hyper::Method;
use mesh_sdk::{ConsumerName, MeshId, Secret};
use serde_json::Value;

use super::Look;
use super::http::{Answer, ask};
use crate::host::decide::{Credentials, Found, Image, Seen, Step};
use crate::host::order::Container;
use shape::Labels;

/// A look, or a step that no container waits for.
const DEADLINE: Duration = Duration::from_secs(30);
/// A container has so long to end by itself before the engine kills it.
const TO_END: Duration = Duration::from_secs(10);
/// The newest version of the API whose shapes are known; an older engine is asked in its own.
const NEWEST: (u32, u32) = (1, 44);

/// The engines of this host, each at its socket.
pub struct Docker {
    /// The mesh, in marks.
    pub mesh: MeshId,
    /// The installation's key.
    pub key: Secret,
}

/// An engine, in the version of the API that it is asked in.
struct Api<'a> {
    socket: &'a Path,
    base: String,
}

impl Api<'_> {
    async fn open(socket: &Path) -> Result<Api<'_>, String> {
        let answer = ask(socket, (Method::GET, "/version"), None, DEADLINE).await?;
        let version = answer.body.get("ApiVersion").and_then(Value::as_str);
        let parts = version.and_then(|text| text.split_once('.'));
        let number = |text: &str| text.parse().ok();
        let theirs = parts.and_then(|(major, minor)| Some((number(major)?, number(minor)?)));
        let theirs: (u32, u32) = theirs.ok_or_else(|| answer.fault("its version"))?;
        let (major, minor) = theirs.min(NEWEST);
        Ok(Api {
            socket,
            base: format!("/v{major}.{minor}"),
        })
    }
    async fn call(
        &self,
        method: Method,
        path: &str,
        json: Option<&Value>,
    ) -> Result<Answer, String> {
        let path = format!("{}{path}", self.base);
        ask(self.socket, (method, &path), json, DEADLINE + TO_END).await
    }
    /// Does something to a container. Errors: it was not done.
    async fn post(&self, what: &str, path: &str, json: Option<&Value>) -> Result<Value, String> {
        let answer = self.call(Method::POST, path, json).await?;
        match answer.is_fine() {
            true => Ok(answer.body),
            false => Err(answer.fault(what)),
        }
    }
    /// The container of that name, and of no other: engines also answer to parts of ids.
    async fn inspect(&self, name: &str) -> Result<Option<Value>, String> {
        let answer = self
            .call(Method::GET, &format!("/containers/{name}/json"), None)
            .await?;
        match answer.status {
            200 => {
                let named = answer.body.get("Name").and_then(Value::as_str);
                let named = named.map(|text| text.trim_start_matches('/')) == Some(name);
                Ok(named.then_some(answer.body))
            }
            404 => Ok(None),
            _ => Err(answer.fault("a look at the container")),
        }
    }
    async fn image(&self, name: &str) -> Result<Option<String>, String> {
        let answer = self
            .call(Method::GET, &format!("/images/{name}/json"), None)
            .await?;
        let id = answer.body.get("Id").and_then(Value::as_str);
        match (answer.status, id) {
            (200, Some(id)) => Ok(Some(shape::image_id(id))),
            (404, _) => Ok(None),
            _ => Err(answer.fault("a look at the image")),
        }
    }
    async fn remove(&self, id: &str) -> Result<(), String> {
        // Without `v`: volumes stay, also those without a name.
        let path = format!("/containers/{id}");
        let answer = self.call(Method::DELETE, &path, None).await?;
        match answer.is_fine() || answer.status == 404 {
            true => Ok(()),
            false => Err(answer.fault("to remove the container that another one follows")),
        }
    }
}

impl Docker {
    fn labels(&self, consumer: &ConsumerName, container: &Container) -> Labels {
        Labels {
            mesh: self.mesh.to_string(),
            consumer: consumer.to_string(),
            mark: container.mark(&self.mesh, consumer, &self.key),
            asked: container.digest(&self.key),
            credentials: None,
        }
    }

    /// Looks at the image and at the container of that name.
    pub async fn look(&self, consumer: &ConsumerName, container: &Container) -> Look {
        match self.looked(consumer, container).await {
            Ok(look) => look,
            Err(why) => Look {
                image: Image::Missing(String::new()),
                found: Found::Unknown(why),
            },
        }
    }

    async fn looked(&self, consumer: &ConsumerName, container: &Container) -> Result<Look, String> {
        let api = Api::open(&container.engine).await?;
        let name = container.image.clone();
        let image = match api.image(&name).await? {
            Some(id) => Image::Here { name, id },
            None => Image::Missing(format!(
                "{name} is not on this host: `podman pull {name}` or `docker pull {name}` brings it"
            )),
        };
        let found = match api.inspect(&container.name).await? {
            None => Found::Absent,
            Some(body) => self.found(consumer, container, &body),
        };
        Ok(Look { image, found })
    }

    fn found(&self, consumer: &ConsumerName, container: &Container, body: &Value) -> Found {
        let wanted = self.labels(consumer, container);
        let seen = Labels::of(body);
        if seen.mark != wanted.mark {
            let whose = match (seen.mesh.is_empty(), seen.mesh == wanted.mesh) {
                (true, _) => "it has no mark of ours".to_owned(),
                (false, true) => format!("its mark is for consumer {}, or forged", seen.consumer),
                (false, false) => format!("its mark is of mesh {}", seen.mesh),
            };
            return Found::Stranger(format!(
                "a container {} is there, and {whose}; it is left alone",
                container.name
            ));
        }
        Found::There(Seen {
            id: shape::text(body, &["Id"]).to_owned(),
            asked: Some(seen.asked),
            image: Some(shape::image_id(shape::text(body, &["Image"]))),
            credentials: seen.credentials,
            by_hand: shape::differences(container, body),
            stands: shape::stands(body),
        })
    }

    /// Makes it in the place of the one that is there, or starts that. Errors: for people.
    pub async fn act(
        &self,
        consumer: &ConsumerName,
        container: &Container,
        step: Step,
        credentials: &Credentials,
    ) -> Result<(), String> {
        let api = Api::open(&container.engine).await?;
        let wanted = self.labels(consumer, container);
        let ours = |body: Option<Value>, name: &str| match body {
            Some(body) if Labels::of(&body).mark != wanted.mark => Err(format!(
                "a container {name} is there and not ours; it is left alone"
            )),
            body => Ok(body),
        };
        let there = ours(api.inspect(&container.name).await?, &container.name)?;
        match (step, there) {
            (Step::Start, Some(body)) => {
                let paused = shape::is(&body, "Paused");
                let verb = if paused { "unpause" } else { "start" };
                start(&api, shape::text(&body, &["Id"]), verb).await
            }
            (Step::Start, None) => Err("it is gone".to_owned()),
            (Step::Make, there) => {
                let next = format!("{}.next", container.name);
                if let Some(left) = ours(api.inspect(&next).await?, &next)? {
                    // Of a restart that was cut off: it never ran.
                    api.remove(shape::text(&left, &["Id"])).await?;
                }
                let labels = Labels {
                    credentials: match credentials {
                        Credentials::There { version, .. } => Some(version.clone()),
                        Credentials::None | Credentials::Waits(_) => None,
                    },
                    ..wanted.clone()
                };
                let body = shape::body(container, &labels)?;
                let path = format!("/containers/create?name={next}");
                let made = api.post("to make it", &path, Some(&body)).await?;
                let id = shape::text(&made, &["Id"]).to_owned();
                if let Some(old) = there {
                    end(&api, &old).await?;
                }
                let path = format!("/containers/{id}/rename?name={}", container.name);
                api.post("to give it its name", &path, None).await?;
                start(&api, &id, "start").await
            }
        }
    }
}

async fn start(api: &Api<'_>, id: &str, verb: &str) -> Result<(), String> {
    let path = format!("/containers/{id}/{verb}");
    api.post("to start it", &path, None).await.map(drop)
}

/// Lets one end, and removes it.
async fn end(api: &Api<'_>, body: &Value) -> Result<(), String> {
    let id = shape::text(body, &["Id"]);
    if shape::is(body, "Paused") {
        start(api, id, "unpause").await?;
    }
    if shape::is(body, "Running") || shape::is(body, "Restarting") {
        let path = format!("/containers/{id}/stop?t={}", TO_END.as_secs());
        api.post("to stop the one before it", &path, None).await?;
    }
    api.remove(id).await
}
