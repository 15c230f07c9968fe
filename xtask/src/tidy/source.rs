//! One Rust file as the checks see it: its tokens, the paths it names, its functions, its tests.

use super::token::{Kind, Token, tokens};
use crate::root::File;
use std::collections::BTreeSet;

/// A path such as `mesh_sdk::harness::Harness`, from a `use` tree or from the code.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Path<'a> {
    pub(crate) line: usize,
    pub(crate) parts: Vec<&'a str>,
}

impl Path<'_> {
    pub(crate) fn starts_with(&self, parts: &[&str]) -> bool {
        self.parts.starts_with(parts)
    }

    pub(crate) fn shown(&self) -> String {
        self.parts.join("::")
    }
}

/// A function with the lines it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: usize,
    pub(crate) lines: usize,
}

/// A Rust file, read once for all checks.
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    pub(crate) tokens: Vec<Token<'a>>,
    whole_file_is_test: bool,
    test_blocks: Vec<(usize, usize)>,
}

impl<'a> Source<'a> {
    /// Reads one file; `declared` are the paths that some other file declares as a test module.
    pub(crate) fn read(file: &'a File, declared: &BTreeSet<String>) -> Self {
        let tokens = tokens(&file.text);
        let test_blocks = test_modules(&tokens)
            .into_iter()
            .filter_map(|module| module.lines)
            .collect();
        let whole_file_is_test = is_test_path(&file.path)
            || declared
                .iter()
                .any(|d| file.path == *d || is_inside(&file.path, d));
        Self {
            path: &file.path,
            text: &file.text,
            tokens,
            whole_file_is_test,
            test_blocks,
        }
    }

    /// Whether the line belongs to test code.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.whole_file_is_test
            || self
                .test_blocks
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&line))
    }

    /// Every path of two parts or more, and every `use`, with its trees written out.
    pub(crate) fn paths(&self) -> Vec<Path<'a>> {
        paths(&self.tokens)
    }

    /// Every function that has a body.
    pub(crate) fn functions(&self) -> Vec<Function<'a>> {
        functions(&self.tokens)
    }

    /// The names of macros called, with their lines.
    pub(crate) fn macros(&self) -> Vec<(&'a str, usize)> {
        self.tokens
            .windows(3)
            .filter(|w| w[0].kind == Kind::Word && w[1].is_sign("!") && !w[2].is_sign("="))
            .map(|w| (w[0].text, w[0].line))
            .collect()
    }
}

/// Reads every Rust file among `files`.
pub(crate) fn sources(files: &[File]) -> Vec<Source<'_>> {
    let rust = || files.iter().filter(|f| f.path.ends_with(".rs"));
    let mut declared = BTreeSet::new();
    for file in rust() {
        let tokens = tokens(&file.text);
        for module in test_modules(&tokens) {
            if module.lines.is_none() {
                declared.extend(module_files(&file.path, module.name));
            }
        }
    }
    rust().map(|file| Source::read(file, &declared)).collect()
}

fn is_test_path(path: &str) -> bool {
    ["/tests/", "/benches/", "/examples/"]
        .iter()
        .any(|part| path.contains(part))
        || path.ends_with("/tests.rs")
}

/// Whether `path` lies in the folder of the module file `module` (`a/b.rs` or `a/b/mod.rs`).
fn is_inside(path: &str, module: &str) -> bool {
    let folder = module
        .strip_suffix("/mod.rs")
        .or_else(|| module.strip_suffix(".rs"))
        .unwrap_or(module);
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with('/'))
}

/// The two files that `mod name;` in `path` may mean.
fn module_files(path: &str, name: &str) -> [String; 2] {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    let base = match file {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        other => format!("{folder}/{}", other.trim_end_matches(".rs")),
    };
    [format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")]
}

struct TestModule<'a> {
    name: &'a str,
    /// First and last line, where the module has its body here.
    lines: Option<(usize, usize)>,
}

/// Modules behind `#[cfg(test)]` or `#[cfg(all(test, …))]`.
fn test_modules<'a>(tokens: &[Token<'a>]) -> Vec<TestModule<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let Some(end) = attribute_end(tokens, at) else {
            at += 1;
            continue;
        };
        let inside = &tokens[at..end];
        let names = |word| inside.iter().any(|t| t.is_word(word));
        if names("cfg") && names("test") && !names("not") {
            found.extend(module_after(tokens, end));
        }
        at = end;
    }
    found
}

/// The index behind the attribute that begins at `at`, if one does.
fn attribute_end(tokens: &[Token<'_>], at: usize) -> Option<usize> {
    if !tokens.get(at)?.is_sign("#") || !tokens.get(at + 1)?.is_sign("[") {
        return None;
    }
    closing(tokens, at + 1).map(|close| close + 1)
}

/// The module that stands at `at`, behind further attributes and its visibility.
fn module_after<'a>(tokens: &[Token<'a>], mut at: usize) -> Option<TestModule<'a>> {
    while let Some(end) = attribute_end(tokens, at) {
        at = end;
    }
    if tokens.get(at)?.is_word("pub") {
        at += 1;
        if tokens.get(at)?.is_sign("(") {
            at = closing(tokens, at)? + 1;
        }
    }
    if !tokens.get(at)?.is_word("mod") {
        return None;
    }
    let name = tokens.get(at + 1)?.text;
    let open = tokens.get(at + 2)?;
    let lines = if open.is_sign("{") {
        let close = closing(tokens, at + 2)?;
        Some((open.line, tokens[close].line))
    } else {
        None
    };
    Some(TestModule { name, lines })
}

/// The index of what closes the bracket at `open`.
fn closing(tokens: &[Token<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(open) {
        if token.kind != Kind::Sign {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(i);
                }
            }
            _ => {}
        }
    }
    None
}

fn functions<'a>(tokens: &[Token<'a>]) -> Vec<Function<'a>> {
    let mut found = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let name = tokens.get(i + 1).filter(|t| t.kind == Kind::Word);
        if let Some(name) = name.filter(|_| token.is_word("fn"))
            && let Some(open) = body_of(tokens, i + 2)
            && let Some(close) = closing(tokens, open)
        {
            found.push(Function {
                name: name.text,
                line: token.line,
                lines: tokens[close].line - token.line + 1,
            });
        }
    }
    found
}

/// The index of the brace that opens the body of the function whose signature goes on at `at`.
fn body_of(tokens: &[Token<'_>], mut at: usize) -> Option<usize> {
    loop {
        let token = tokens.get(at)?;
        if token.is_sign("{") {
            return Some(at);
        }
        if token.is_sign(";") {
            return None;
        }
        if token.is_sign("(") || token.is_sign("[") {
            at = closing(tokens, at)?;
        }
        at += 1;
    }
}

fn paths<'a>(tokens: &[Token<'a>]) -> Vec<Path<'a>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let token = tokens[at];
        if token.is_word("use") && tokens.get(at + 1).is_some_and(|t| !t.is_sign("<")) {
            at = use_tree(tokens, at + 1, &[], &mut found);
            continue;
        }
        if token.kind != Kind::Word {
            at += 1;
            continue;
        }
        let mut parts = vec![token.text];
        at += 1;
        while let [sign, word, ..] = tokens.get(at..).unwrap_or_default()
            && sign.is_sign("::")
            && word.kind == Kind::Word
        {
            parts.push(word.text);
            at += 2;
        }
        if parts.len() > 1 {
            found.push(Path {
                line: token.line,
                parts,
            });
        }
    }
    found
}

/// Writes out one branch of a `use` tree; gives the index behind it.
fn use_tree<'a>(
    tokens: &[Token<'a>],
    mut at: usize,
    before: &[&'a str],
    found: &mut Vec<Path<'a>>,
) -> usize {
    let mut parts = before.to_vec();
    let line = tokens.get(at).map_or(0, |t| t.line);
    while let Some(token) = tokens.get(at) {
        if token.is_word("as") {
            at += 2;
        } else if token.kind == Kind::Word || token.is_sign("*") {
            parts.push(token.text);
            at += 1;
        } else if token.is_sign("::") {
            at += 1;
        } else if token.is_sign("{") {
            at += 1;
            while tokens.get(at).is_some_and(|t| !t.is_sign("}")) {
                let next = use_tree(tokens, at, &parts, found);
                at = if tokens.get(next).is_some_and(|t| t.is_sign(",")) || next == at {
                    next + 1
                } else {
                    next
                };
            }
            return at + 1;
        } else {
            break;
        }
    }
    if parts.len() > before.len() {
        found.push(Path { line, parts });
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        paths(&tokens(text)).iter().map(Path::shown).collect()
    }

    #[test]
    fn use_trees_are_written_out() {
        assert_eq!(
            shown("use a::{b, c::{d as e, self}, f::*};\npub use x;\nlet y = p::q::<T>::r();"),
            ["a::b", "a::c::d", "a::c::self", "a::f::*", "x", "p::q"]
        );
    }

    #[test]
    fn what_follows_a_use_is_still_read() {
        assert_eq!(
            shown("use {a::b, c::d};\nfn f() { e::g() }"),
            ["a::b", "c::d", "e::g"]
        );
    }

    #[test]
    fn a_capture_list_is_no_use() {
        assert_eq!(shown("fn f() -> impl A + use<'a, T> { x::y() }"), ["x::y"]);
    }

    #[test]
    fn functions_are_measured_by_their_braces() {
        let text = "fn a(x: [u8; 2]) {\n  if x { '}'; }\n}\ntrait T { fn b(); fn c() { } }";
        assert_eq!(
            functions(&tokens(text)),
            [
                Function {
                    name: "a",
                    line: 1,
                    lines: 3
                },
                Function {
                    name: "c",
                    line: 4,
                    lines: 1
                },
            ]
        );
    }

    #[test]
    fn test_blocks_and_declared_test_files_are_known() {
        let files = [
            File::new(
                "crates/a/src/lib.rs",
                "//! a\nfn f() {}\n#[cfg(test)]\nmod tests {\n  fn g() {}\n}\n#[cfg(test)] mod histories;",
            ),
            File::new("crates/a/src/histories.rs", "fn h() {}"),
            File::new("crates/a/src/histories/deep.rs", "fn i() {}"),
            File::new(
                "crates/a/src/other.rs",
                "#[cfg(not(test))] mod real { fn j() {} }",
            ),
            File::new("crates/a/tests/it/main.rs", "fn k() {}"),
        ];
        let read = sources(&files);
        assert!(!read[0].is_test(2));
        assert!(read[0].is_test(5));
        assert!(read[1].is_test(1));
        assert!(read[2].is_test(1));
        assert!(!read[3].is_test(1));
        assert!(read[4].is_test(1));
    }

    #[test]
    fn a_test_module_of_a_plain_file_lies_in_its_folder() {
        assert_eq!(
            module_files("a/src/b.rs", "t"),
            ["a/src/b/t.rs", "a/src/b/t/mod.rs"]
        );
        assert_eq!(module_files("a/src/lib.rs", "t")[0], "a/src/t.rs");
    }

    #[test]
    fn macros_are_seen_and_comparisons_are_not() {
        let file = File::new("a.rs", "println!(\"x\"); if a != b {}");
        let read = Source::read(&file, &BTreeSet::new());
        assert_eq!(read.macros(), [("println", 1)]);
    }
}
