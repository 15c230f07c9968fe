//! Manifests: every crate inherits the workspace's lints, and every dependency has its reason written down.

use super::Finding;
use crate::root::File;

/// Where each dependency's reason stands.
const REASONS: &str = "docs/decisions/0001-dependencies.md";

/// All of them.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut found = lints(files);
    found.extend(reasons(files));
    found
}

/// Every dependency of the workspace that is not a crate of it.
fn reasons(files: &[File]) -> Vec<Finding> {
    let text = |path: &str| {
        files
            .iter()
            .find(|f| f.path == path)
            .map(|f| f.text.as_str())
    };
    let reasons = text(REASONS).unwrap_or_default();
    let root = text("Cargo.toml").and_then(|text| text.parse::<toml::Table>().ok());
    let dependencies = root
        .as_ref()
        .and_then(|root| root.get("workspace")?.get("dependencies")?.as_table());
    dependencies
        .into_iter()
        .flatten()
        .filter(|(name, asked)| {
            asked.get("path").is_none() && !reasons.contains(&format!("`{name}`"))
        })
        .map(|(name, _)| {
            let what = format!("`{name}` has no reason in {REASONS}");
            Finding::new("dependency", "Cargo.toml", 0, what)
        })
        .collect()
}

/// Every `Cargo.toml` that makes a package.
fn lints(files: &[File]) -> Vec<Finding> {
    files
        .iter()
        .filter(|file| file.name() == "Cargo.toml")
        .filter_map(|file| {
            let what = match file.text.parse::<toml::Table>() {
                Err(error) => error.to_string(),
                Ok(manifest) if inherits(&manifest) => return None,
                Ok(_) => "says no `[lints] workspace = true`".to_owned(),
            };
            Some(Finding::new("lints", &file.path, 0, what))
        })
        .collect()
}

fn inherits(manifest: &toml::Table) -> bool {
    let inherited = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool);
    !manifest.contains_key("package") || inherited == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&[File::new("crates/a/Cargo.toml", text)]).len()
    }

    #[test]
    fn a_crate_that_inherits_passes() {
        assert_eq!(
            count("[package]\nname = \"a\"\n[lints]\nworkspace = true\n"),
            0
        );
    }

    #[test]
    fn a_crate_that_does_not_inherit_is_refused() {
        assert_eq!(count("[package]\nname = \"a\"\n"), 1);
        assert_eq!(
            count("[package]\nname = \"a\"\n[lints.rust]\nunsafe_code = \"allow\"\n"),
            1
        );
        assert_eq!(count("[package\n"), 1);
    }

    #[test]
    fn a_dependency_has_its_reason_written_down() {
        let root = "[workspace.dependencies]\nserde = \"1\"\nours = { path = \"crates/ours\" }\n";
        let check =
            |page: &str| check(&[File::new("Cargo.toml", root), File::new(REASONS, page)]).len();
        assert_eq!(check("| `serde` | records |"), 0);
        assert_eq!(check("| `serde_json` | records |"), 1);
        assert_eq!(check(""), 1);
    }

    #[test]
    fn a_workspace_root_needs_none() {
        assert_eq!(count("[workspace]\nmembers = []\n"), 0);
    }
}
