//! `cargo xtask docs`: reference pages made from what the program itself says.

use crate::{conformance, printer, root};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FOLDER: &str = "docs/generated";

/// The man pages' folder in it.
const MAN: &str = "man";

/// Stands on top of every page.
pub(crate) const MADE: &str =
    "<!-- Made by `cargo xtask docs` from what the program says: do not edit. -->\n";

/// Fields that change while a mesh runs and have no place on a page.
const MOVES: [&str; 7] = [
    "at",
    "beat",
    "last_pass",
    "next_pass",
    "running",
    "since",
    "state",
];

/// Writes the pages, or with `check` compares them; gives whether they agree.
pub(crate) fn run(check: bool) -> Result<bool> {
    let root = root::workspace()?;
    let folder = root.join(FOLDER);
    let program = Program::build(&root)?;
    let mut pages = pages(&|words| program.say(words))?;
    let reports = written(&root.join(conformance::REPORTS))?;
    pages.insert("conformance.md".to_owned(), conformance::page(&reports)?);
    pages.extend(man_pages(&root)?);
    if check {
        let differing = differing(&pages, &written(&folder)?);
        for name in &differing {
            printer::problem(&format!("{FOLDER}/{name}: differs; run `cargo xtask docs`"));
        }
        return Ok(differing.is_empty());
    }
    fs::create_dir_all(folder.join(MAN))?;
    for name in written(&folder)?
        .keys()
        .filter(|name| !pages.contains_key(*name))
    {
        fs::remove_file(folder.join(name)).with_context(|| format!("cannot remove {name}"))?;
    }
    for (name, text) in &pages {
        fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    printer::line(&format!("wrote {} pages to {FOLDER}", pages.len()));
    Ok(true)
}

/// All pages, from a way to ask the program.
fn pages(say: &dyn Fn(&[&str]) -> Result<String>) -> Result<BTreeMap<String, String>> {
    let schema = say(&["schema"])?;
    serde_json::from_str::<Value>(&schema).context("`mesh schema` gave no JSON")?;
    let listed = |word: &str| -> Result<Value> {
        let said = say(&[word, "--json"])?;
        serde_json::from_str(&said).with_context(|| format!("`mesh {word} --json` gave no JSON"))
    };
    let pages = [
        ("adapters.md", list_page("Adapters", &listed("adapters")?)?),
        ("loops.md", list_page("Loops", &listed("loops")?)?),
        ("cli.md", cli_page(say)?),
        ("manifest.schema.json", format!("{}\n", schema.trim_end())),
    ];
    Ok(pages.map(|(name, text)| (name.to_owned(), text)).into())
}

/// The man pages, as `MAN/mesh-up.1`: made by a program of the crate that has the words.
fn man_pages(root: &Path) -> Result<BTreeMap<String, String>> {
    let folder = root.join("target/xtask-docs").join(MAN);
    if folder.is_dir() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let words = "run --quiet --locked --package meshkeeper --example manpages --";
    let status = Command::new(env!("CARGO"))
        .args(words.split(' '))
        .arg(&folder)
        .current_dir(root)
        .status()
        .context("cargo run --example manpages")?;
    ensure!(status.success(), "the man pages could not be made");
    let made = written(&folder)?;
    ensure!(made.contains_key("mesh.1"), "no man page of mesh was made");
    Ok(made
        .into_iter()
        .map(|(name, text)| (format!("{MAN}/{name}"), text))
        .collect())
}

/// Names of pages that are not as they should be: missing, different, or not made by anyone.
fn differing(made: &BTreeMap<String, String>, written: &BTreeMap<String, String>) -> Vec<String> {
    let missing_or_other = made
        .iter()
        .filter(|(name, text)| written.get(*name) != Some(text))
        .map(|(name, _)| name.clone());
    let left_over = written
        .keys()
        .filter(|name| !made.contains_key(*name))
        .cloned();
    missing_or_other.chain(left_over).collect()
}

/// The files of a folder, and of the folders in it.
fn written(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    if folder.is_dir() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                let below = written(&path)?;
                found.extend(
                    below
                        .into_iter()
                        .map(|(n, text)| (format!("{name}/{n}"), text)),
                );
            } else {
                found.insert(name.into_owned(), fs::read_to_string(&path)?);
            }
        }
    }
    Ok(found)
}

/// One section for each thing in a list, whatever its fields are.
fn list_page(title: &str, value: &Value) -> Result<String> {
    let mut page = format!("{MADE}\n# {title}\n");
    for item in items(value).with_context(|| format!("{title}: no list in the JSON"))? {
        let name = ["kind", "name", "class", "id"]
            .iter()
            .find_map(|key| item.get(key).and_then(Value::as_str))
            .with_context(|| format!("{title}: an entry has no name"))?;
        write!(page, "\n## {name}\n\n")?;
        fields(&mut page, item, 0, name)?;
    }
    Ok(page)
}

/// The list itself, or the one list inside an object.
fn items(value: &Value) -> Option<&Vec<Value>> {
    match value {
        Value::Array(list) => Some(list),
        Value::Object(object) => object.values().find_map(Value::as_array),
        _ => None,
    }
}

fn fields(page: &mut String, value: &Value, depth: usize, title: &str) -> Result<()> {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                let told = depth == 0 && inner.as_str() == Some(title);
                if told || MOVES.contains(&key.as_str()) || inner.is_null() {
                    continue;
                }
                match plain(inner) {
                    Some(text) => writeln!(page, "{indent}- {}: {text}", key.replace('_', " "))?,
                    None => {
                        writeln!(page, "{indent}- {}:", key.replace('_', " "))?;
                        fields(page, inner, depth + 1, title)?;
                    }
                }
            }
        }
        Value::Array(list) => {
            for inner in list {
                match plain(inner) {
                    Some(text) => writeln!(page, "{indent}- {text}")?,
                    None => {
                        writeln!(page, "{indent}-")?;
                        fields(page, inner, depth + 1, title)?;
                    }
                }
            }
        }
        other => writeln!(page, "{indent}- {other}")?,
    }
    Ok(())
}

/// What fits on one line: a scalar, or a list of short scalars.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().replace('\n', " ")),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null => Some("none".to_owned()),
        Value::Array(list) if list.is_empty() => Some("none".to_owned()),
        Value::Array(list) => {
            let short: Option<Vec<String>> = list
                .iter()
                .map(|v| plain(v).filter(|t| t.len() < 30 && !v.is_array()))
                .collect();
            short.map(|parts| parts.join(", "))
        }
        Value::Object(_) => None,
    }
}

/// The help of the program and of every word, and of the words below those.
fn cli_page(say: &dyn Fn(&[&str]) -> Result<String>) -> Result<String> {
    let mut page = format!("{MADE}\n# The command line\n");
    let mut next: Vec<Vec<String>> = vec![Vec::new()];
    let mut first = true;
    while let Some(words) = next.pop() {
        let asked: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
        let help = say(&asked)?;
        let below = words_of(&help);
        ensure!(!first || !below.is_empty(), "`mesh --help` names no words");
        first = false;
        let name = [&["mesh".to_owned()], words.as_slice()].concat().join(" ");
        let body: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", body.join("\n"))?;
        for word in below.into_iter().rev() {
            next.push([words.as_slice(), &[word]].concat());
        }
    }
    Ok(page)
}

/// The words that a help text lists: indented by two, in a part whose heading names commands.
fn words_of(help: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        if !line.starts_with(' ') && !line.is_empty() {
            let heading = line.strip_suffix(':');
            inside = heading.is_some_and(|h| !matches!(h, "Options" | "Arguments"));
        } else if inside
            && let Some(rest) = line.strip_prefix("  ")
            && !rest.starts_with(' ')
            && let Some(word) = rest.split_whitespace().next()
            && word != "help"
            && word.bytes().all(|b| b.is_ascii_lowercase())
        {
            found.push(word.to_owned());
        }
    }
    found
}

/// The built program, asked in an empty folder so that no manifest of anyone's shows through.
struct Program {
    binary: PathBuf,
    empty: PathBuf,
}

impl Program {
    fn build(root: &Path) -> Result<Self> {
        let output = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--locked",
                "--package",
                "meshkeeper",
                "--bin",
                "mesh",
            ])
            .args(["--message-format", "json-render-diagnostics"])
            .current_dir(root)
            .stderr(Stdio::inherit())
            .output()
            .context("cargo build")?;
        ensure!(output.status.success(), "the program does not build");
        let said = String::from_utf8_lossy(&output.stdout);
        let binary = said
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
            .context("cargo did not say where the program is")?;
        let empty = root.join("target").join("xtask-docs");
        fs::create_dir_all(&empty)?;
        Ok(Self { binary, empty })
    }

    fn say(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.binary);
        command
            .args(words)
            .current_dir(&self.empty)
            .stdin(Stdio::null());
        command.env("NO_COLOR", "1").env("COLUMNS", "100");
        for name in ["MESH_CONFIG", "MESH_DATA", "MESH_LOG", "RUST_LOG"] {
            command.env_remove(name);
        }
        let shown = format!("mesh {}", words.join(" "));
        let output = command.output().with_context(|| shown.clone())?;
        if !output.status.success() {
            bail!(
                "`{shown}`: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        String::from_utf8(output.stdout).with_context(|| format!("`{shown}` gave no UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Keeps logins\n\nUsage: mesh <WORD>\n\nCommands:\n  up     Runs\n         on\n  bus    Moves\n  help   Helps\n\nOptions:\n  -h     Help\n";

    fn program(words: &[&str]) -> Result<String> {
        Ok(match words {
            ["schema"] => "{ \"type\": \"object\" }\n\n",
            ["adapters", "--json"] => {
                r#"[{"kind":"redis","capabilities":["holds","list"],"bulk":true,"values":{"keys":"patterns"}}]"#
            }
            ["loops", "--json"] => {
                r#"{"loops":[{"name":"provisioner","class":"backend","last_pass":"now","blind_spots":["what a server does not tell, and this is long enough to take a line"]}]}"#
            }
            ["--help"] => HELP,
            ["bus", "--help"] => "Moves\n\nCommands:\n  export  Writes\n",
            _ => "Help of a word\n",
        }
        .to_owned())
    }

    #[test]
    fn pages_are_made_from_what_the_program_says() {
        let made = pages(&program).unwrap();
        assert_eq!(made["manifest.schema.json"], "{ \"type\": \"object\" }\n");
        let adapters = &made["adapters.md"];
        assert!(adapters.contains("## redis\n\n- bulk: yes\n- capabilities: holds, list\n- values:\n  - keys: patterns\n"), "{adapters}");
        let loops = &made["loops.md"];
        assert!(
            loops.contains("- blind spots:\n  - what a server"),
            "{loops}"
        );
        assert!(
            !loops.contains("last pass"),
            "what moves stays out: {loops}"
        );
        let cli = &made["cli.md"];
        let order: Vec<&str> = cli.lines().filter(|l| l.starts_with("## ")).collect();
        assert_eq!(
            order,
            [
                "## `mesh`",
                "## `mesh up`",
                "## `mesh bus`",
                "## `mesh bus export`"
            ]
        );
    }

    #[test]
    fn a_program_that_says_nothing_is_an_error() {
        assert!(pages(&|_| Ok(String::new())).is_err());
        let no_words = |words: &[&str]| match words {
            ["--help"] => Ok("Usage".to_owned()),
            other => program(other),
        };
        assert!(pages(&no_words).is_err());
    }

    #[test]
    fn pages_that_differ_are_missing_or_left_over_are_told() {
        let made = BTreeMap::from([
            ("a.md".to_owned(), "a".to_owned()),
            ("b.md".to_owned(), "b".to_owned()),
        ]);
        assert!(differing(&made, &made).is_empty());
        let other = BTreeMap::from([
            ("a.md".to_owned(), "x".to_owned()),
            ("c.md".to_owned(), String::new()),
        ]);
        assert_eq!(differing(&made, &other), ["a.md", "b.md", "c.md"]);
    }

    #[test]
    fn words_are_read_from_help_and_nothing_else_is() {
        assert_eq!(words_of(HELP), ["up", "bus"]);
        assert!(words_of("Options:\n  -h  Help\n").is_empty());
    }
}
