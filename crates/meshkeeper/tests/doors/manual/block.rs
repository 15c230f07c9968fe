//! What a page says to do: its fenced blocks, read.

/// One thing that the page does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes a file, or appends to it.
    File {
        name: String,
        text: String,
        append: bool,
    },
    /// Runs a command, which must say this.
    Run {
        line: usize,
        command: String,
        says: Vec<String>,
    },
}

/// Words after the three backticks of blocks that are only read.
const READ_ONLY: [&str; 7] = ["text", "ini", "rust", "python", "json", "mermaid", "toml"];

/// All steps of a page, in order; or what is wrong with it.
pub(super) fn steps(page: &str) -> Result<Vec<Step>, String> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let body: Vec<(usize, &str)> = lines
            .by_ref()
            .take_while(|(_, line)| line.trim_start() != "```")
            .map(|(i, line)| (i + 1, line))
            .collect();
        let words: Vec<&str> = kind.split_whitespace().collect();
        match words.as_slice() {
            ["console"] => found.extend(runs(&body)?),
            ["toml" | "python" | "sh" | "text", name, rest @ ..]
                if rest.is_empty() || rest == ["+"] =>
            {
                let text: String = body.iter().map(|(_, line)| format!("{line}\n")).collect();
                found.push(Step::File {
                    name: (*name).to_owned(),
                    text,
                    append: !rest.is_empty(),
                });
            }
            [word] if READ_ONLY.contains(word) => {}
            _ => return Err(format!("line {}: nobody runs a block `{kind}`", number + 1)),
        }
    }
    Ok(found)
}

fn runs(body: &[(usize, &str)]) -> Result<Vec<Step>, String> {
    let mut found: Vec<Step> = Vec::new();
    for (line, text) in body {
        if let Some(first) = text.strip_prefix("$ ") {
            found.push(Step::Run {
                line: *line,
                command: first.to_owned(),
                says: Vec::new(),
            });
            continue;
        }
        let Some(Step::Run { command, says, .. }) = found.last_mut() else {
            return Err(format!("line {line}: output before any command"));
        };
        match text.strip_prefix("> ") {
            Some(more) if says.is_empty() => {
                command.push('\n');
                command.push_str(more);
            }
            _ => says.push((*text).to_owned()),
        }
    }
    Ok(found)
}

/// Whether what was said is what the page shows.
pub(super) fn fits(shown: &[String], said: &[&str]) -> bool {
    match shown {
        [] => said.is_empty(),
        [first, rest @ ..] if first == "..." => (0..=said.len()).any(|i| fits(rest, &said[i..])),
        [first, rest @ ..] => said.split_first().is_some_and(|(line, more)| {
            line_fits(first.trim_end(), line.trim_end()) && fits(rest, more)
        }),
    }
}

/// `[..]` is anything; the rest is as it stands.
fn line_fits(shown: &str, said: &str) -> bool {
    match shown.split_once("[..]") {
        None => shown == said,
        Some((head, tail)) => said.strip_prefix(head).is_some_and(|rest| {
            let ends = rest.char_indices().map(|(i, _)| i).chain([rest.len()]);
            ends.into_iter().any(|i| line_fits(tail, &rest[i..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(shown: &str, said: &str) -> bool {
        let shown: Vec<String> = shown.lines().map(str::to_owned).collect();
        fits(&shown, &said.lines().collect::<Vec<_>>())
    }

    #[test]
    fn what_is_shown_is_compared_line_by_line() {
        for (shown, said) in [
            ("a\nb", "a\nb"),
            ("a  ", "a"),
            ("...", ""),
            ("...\nb", "a\na\nb"),
            ("a\n...", "a"),
            ("a [..] c", "a b b c"),
            ("[..]c", "c"),
            ("x[..]y[..]z", "x1y2z"),
        ] {
            assert!(fit(shown, said), "{shown:?} {said:?}");
        }
        for (shown, said) in [
            ("", "a"),
            ("a", ""),
            ("a\n...", "b"),
            ("a [..] c", "a b"),
            ("...\nb", "b\na"),
            ("[..]", ""),
        ] {
            assert!(!fit(shown, said), "{shown:?} {said:?}");
        }
    }

    #[test]
    fn a_page_is_read_block_by_block() {
        let page = "x\n```toml mesh.toml\na = 1\n```\n```console\n$ one \\\n> two\nsaid\n$ three\n```\n```json\n{}\n```\n";
        let steps = steps(page).expect("steps");
        let file = Step::File {
            name: "mesh.toml".into(),
            text: "a = 1\n".into(),
            append: false,
        };
        let one = Step::Run {
            line: 6,
            command: "one \\\ntwo".into(),
            says: vec!["said".into()],
        };
        let three = Step::Run {
            line: 9,
            command: "three".into(),
            says: vec![],
        };
        assert_eq!(steps, [file, one, three]);
    }

    #[test]
    fn a_block_that_nobody_runs_is_refused() {
        for page in [
            "```sh\nls\n```\n",
            "```\nls\n```\n",
            "```bash\nls\n```\n",
            "```console\nls\n```\n",
        ] {
            assert!(steps(page).is_err(), "{page}");
        }
    }
}
