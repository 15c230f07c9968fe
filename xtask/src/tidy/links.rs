//! Links: what a Markdown file points at is there, the heading too.

use super::Finding;
use crate::root::File;
use std::collections::BTreeSet;

/// Every link of every Markdown file that points into the repository.
pub(super) fn check(files: &[File]) -> Vec<Finding> {
    let known = known(files);
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.path.ends_with(".md")) {
        for (line, target) in targets(&file.text) {
            let whole = target.split(['#', '?']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let path = match whole {
                "" => Some(file.path.clone()),
                _ => resolve(&file.path, whole).filter(|path| known.contains(path)),
            };
            let heading = target.split_once('#').map(|(_, heading)| heading);
            let there =
                path.is_some_and(|path| heading.is_none_or(|h| has_heading(files, &path, h)));
            if !there {
                let what = format!("points at `{target}`, which is not there");
                found.push(Finding::new("link", &file.path, line, what));
            }
        }
    }
    found
}

/// Whether a Markdown file has a heading of this anchor; other files are not looked into.
fn has_heading(files: &[File], path: &str, anchor: &str) -> bool {
    let file = files.iter().find(|file| file.path == path);
    file.is_none_or(|file| {
        !path.ends_with(".md") || headings(&file.text).any(|heading| heading == anchor)
    })
}

/// The anchors of a file's headings, as forges make them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut in_code = false;
    let lines = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence && line.starts_with('#')
    });
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

/// Every file, and every folder that holds one.
fn known(files: &[File]) -> BTreeSet<String> {
    let mut known = BTreeSet::from([String::new()]);
    for file in files {
        let mut path = file.path.as_str();
        known.insert(path.to_owned());
        while let Some((folder, _)) = path.rsplit_once('/') {
            known.insert(folder.to_owned());
            path = folder;
        }
    }
    known
}

/// The path that `target`, written in the file `from`, means; none where it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            other => parts.push(other),
        }
    }
    Some(parts.join("/"))
}

/// The targets of inline links and of reference definitions, with their lines; code is left out.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (i, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            in_code = !in_code;
        } else if !in_code {
            found.extend(inline(line).into_iter().map(|target| (i + 1, target)));
            found.extend(definition(trimmed).map(|target| (i + 1, target)));
        }
    }
    found
}

fn inline(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut code = false;
    let mut rest = line;
    while let Some(at) = rest.find(['`', ']']) {
        let tail = &rest[at + 1..];
        if rest[at..].starts_with('`') {
            code = !code;
        } else if let Some(target) = tail.strip_prefix('(').filter(|_| !code) {
            found.extend(target.split([')', ' ']).next());
        }
        rest = tail;
    }
    found
}

fn definition(line: &str) -> Option<&str> {
    let (name, target) = line.strip_prefix('[')?.split_once("]: ")?;
    let plain = !name.is_empty() && !name.contains(['[', ']']);
    plain.then(|| target.split_whitespace().next()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &str) -> usize {
        check(&[
            File::new("docs/a.md", text),
            File::new("docs/b.md", "# Part\n## The `mesh up`: what, and why\n"),
            File::new("README.md", ""),
        ])
        .len()
    }

    #[test]
    fn links_to_files_and_folders_pass() {
        for text in [
            "[b](b.md)",
            "[b](./b.md#part \"title\")",
            "[b](b.md#the-mesh-up-what-and-why)",
            "# Here\n[h](#here)",
            "![r](../README.md) and [d](../docs/)",
            "[ref]: b.md",
            "[out](https://example.org/x.md) [m](mailto:a@example.org)",
        ] {
            assert_eq!(broken(text), 0, "{text}");
        }
    }

    #[test]
    fn links_to_nothing_are_refused() {
        for text in [
            "[c](c.md)",
            "[u](../../README.md)",
            "[ref]: c.md",
            "[abs](/docs/b.md)",
            "[b](b.md#parts)",
            "[here](#part)",
        ] {
            assert_eq!(broken(text), 1, "{text}");
        }
        assert_eq!(broken("[c](c.md) and [d](d.md)"), 2);
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(broken("`[c](c.md)`\n```\n[c](c.md)\n```\n"), 0);
    }
}
