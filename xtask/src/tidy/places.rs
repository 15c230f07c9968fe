//! Places: no file names a folder of the machine it was written on.

use super::Finding;
use crate::root::File;

/// Written in two halves so that this file does not name them either.
const PLACES: [&str; 3] = [
    concat!("/wo", "rk"),
    concat!("/tmp", "/wt"),
    concat!("/ro", "ot"),
];

/// Every text file.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in files {
        for (i, line) in file.text.lines().enumerate() {
            if let Some(place) = PLACES.into_iter().find(|place| names(line, place)) {
                let what = format!("names `{place}`, a folder of one machine");
                found.push(Finding::new("place", &file.path, i + 1, what));
            }
        }
    }
    found
}

/// Whether `line` holds `place` as the beginning of an absolute path.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + place.len()..].chars().next();
        let goes_on = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        !before.is_some_and(|c| goes_on(c) || "/~*}>".contains(c)) && !after.is_some_and(goes_on)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(line: &str) -> usize {
        check(&[File::new("a.md", line)]).len()
    }

    #[test]
    fn absolute_paths_of_a_machine_are_refused() {
        for place in PLACES {
            assert_eq!(count(&format!("cd {place}/main")), 1, "{place}");
            assert_eq!(count(&format!("`{place}`")), 1, "{place}");
        }
    }

    #[test]
    fn other_paths_pass() {
        for line in [
            "see docs/work/x",
            "a/workspace",
            "/workspace",
            "home/root/x",
            "/workers",
        ] {
            assert_eq!(count(line), 0, "{line}");
        }
    }
}
