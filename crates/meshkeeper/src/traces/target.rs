//! Where spans go: what the variables of OpenTelemetry say, by the names and rules of its specification.

use std::path::PathBuf;

use mesh_sdk::Secret;

use super::otlp::Value;
use crate::manifest::url;

/// The collector, and how this process is described to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// With TLS.
    pub tls: bool,
    /// The host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path, from its slash.
    pub path: String,
    /// The authorities to trust, if not the system's.
    pub ca: Option<PathBuf>,
    /// Headers of each request; they may let somebody in.
    pub headers: Vec<(String, Secret)>,
    /// What describes this process.
    pub resource: Vec<(String, Value)>,
}

/// Reads a variable: none where it is not set, or empty.
pub type Variable<'v> = &'v dyn Fn(&str) -> Option<String>;

const PATH: &str = "v1/traces";

impl Target {
    /// What the variables say. Nothing: no collector is named, or traces are switched off. An error is a line
    /// for people, without what may be secret.
    pub fn read(variable: Variable<'_>) -> Option<Result<Self, String>> {
        let is = |name: &str, value: &str| {
            variable(name).is_some_and(|found| found.trim().eq_ignore_ascii_case(value))
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return None;
        }
        let of_traces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
        let of_all = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let (name, text) = match (variable(of_traces), variable(of_all)) {
            (Some(text), _) => (of_traces, text),
            // The common one gets the path of each signal.
            (None, Some(text)) => (of_all, format!("{}/{PATH}", text.trim_end_matches('/'))),
            (None, None) => return None,
        };
        let target = Self::at(&text, variable);
        Some(target.map_err(|why| format!("{name}: {why}")))
    }

    fn at(text: &str, variable: Variable<'_>) -> Result<Self, String> {
        let parsed = url::parse(text)?;
        let tls = match parsed.scheme.as_str() {
            "https" => true,
            "http" if is_this_machine(&parsed.host) => false,
            "http" => return Err("beyond this machine it must be https".to_owned()),
            _ => return Err("it must begin with http:// or https://".to_owned()),
        };
        let either = |what: &str| {
            let of_traces = variable(&format!("OTEL_EXPORTER_OTLP_TRACES_{what}"));
            of_traces.or_else(|| variable(&format!("OTEL_EXPORTER_OTLP_{what}")))
        };
        if let Some(protocol) = either("PROTOCOL").filter(|p| p != "http/protobuf") {
            let known = protocol.chars().take(20).filter(|c| c.is_ascii_graphic());
            let known: String = known.collect();
            return Err(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is `{known}`, and only `http/protobuf` is spoken"
            ));
        }
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        let headers = either("HEADERS").unwrap_or_default();
        Ok(Self {
            tls,
            port: parsed.port.unwrap_or(if tls { 443 } else { 80 }),
            host: parsed.host,
            path: format!("/{path}"),
            ca: either("CERTIFICATE").map(PathBuf::from),
            headers: pairs(&headers, "OTEL_EXPORTER_OTLP_HEADERS")?
                .into_iter()
                .map(|(name, value)| (name, Secret::from(value)))
                .collect(),
            resource: resource(variable)?,
        })
    }
}

/// `service.name` is `mesh` unless a variable says otherwise.
fn resource(variable: Variable<'_>) -> Result<Vec<(String, Value)>, String> {
    let name = "OTEL_RESOURCE_ATTRIBUTES";
    let mut pairs = pairs(&variable(name).unwrap_or_default(), name)?;
    let mut say = |key: &str, value: Option<String>, over: bool| {
        let there = pairs.iter().position(|(known, _)| known == key);
        match (there, value) {
            (Some(at), Some(value)) if over => pairs[at].1 = value,
            (None, Some(value)) => pairs.push((key.to_owned(), value)),
            _ => {}
        }
    };
    say("service.name", variable("OTEL_SERVICE_NAME"), true);
    say("service.name", Some("mesh".to_owned()), false);
    say(
        "service.version",
        Some(env!("CARGO_PKG_VERSION").to_owned()),
        false,
    );
    let text = |(key, value)| (key, Value::Text(value));
    Ok(pairs.into_iter().map(text).collect())
}

/// `key=value,key=value`, the values percent-encoded. Values are not in the error.
fn pairs(text: &str, variable: &str) -> Result<Vec<(String, String)>, String> {
    let wrong = || format!("{variable} must be key=value,key=value, percent-encoded");
    let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
    let pair = |part: &str| {
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let value = url::decode(value.trim()).map_err(|_| wrong())?;
        Ok((key.trim().to_owned(), value))
    };
    parts.map(pair).collect()
}

fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    //! The variables mean what the specification says, and no secret is in what is told of them.
    use super::*;

    fn read(set: &[(&str, &str)]) -> Option<Result<Target, String>> {
        let variable = |name: &str| {
            let found = set.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Target::read(&variable)
    }

    #[test]
    fn traces_are_off_unless_a_collector_is_named() {
        let named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[named, ("OTEL_SDK_DISABLED", "true")]), None);
        assert_eq!(read(&[named, ("OTEL_TRACES_EXPORTER", "none")]), None);
        let target = read(&[named]).expect("on").expect("a target");
        assert_eq!((target.tls, target.port), (false, 4318));
        assert_eq!(target.path, "/v1/traces");
        assert_eq!(target.resource[0].1, Value::Text("mesh".to_owned()));
    }

    #[test]
    fn the_variable_of_traces_wins_and_is_taken_as_it_is() {
        let target = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318"),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                "https://otel.example/own",
            ),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20planted, x-a=b",
            ),
            ("OTEL_SERVICE_NAME", "night"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "service.name=day,deployment.environment=prod",
            ),
        ]);
        let target = target.expect("on").expect("a target");
        assert_eq!((target.tls, target.port), (true, 443));
        assert_eq!(target.path, "/own");
        assert_eq!(target.headers[0].1, Secret::from("Bearer planted"));
        assert_eq!(target.resource[0].1, Value::Text("night".to_owned()));
        assert!(!format!("{target:?}").contains("planted"));
    }

    #[test]
    fn s5_what_cannot_be_used_is_told_without_what_may_be_secret() {
        for (set, told) in [
            (
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://otel.example"),
                "https",
            ),
            (
                ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://u:planted@h"),
                "login",
            ),
            (("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318"), "scheme"),
        ] {
            let why = read(&[set]).expect("on").expect_err("refused");
            assert!(why.contains(told) && !why.contains("planted"), "{why}");
        }
        let named = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "planted"),
        ] {
            let why = read(&[named, (name, value)]).expect("on");
            let why = why.expect_err("refused");
            assert!(why.contains(name) && !why.contains("planted"), "{why}");
        }
    }
}
