//! Manifests: every crate inherits the workspace's lints.

use super::Finding;
use crate::root::File;

/// Every `Cargo.toml` that makes a package.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
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
    fn a_workspace_root_needs_none() {
        assert_eq!(count("[workspace]\nmembers = []\n"), 0);
    }
}
