//! Asking the person at the terminal, where there is one.

use std::io::IsTerminal as _;

use super::Context;
use super::online::Online;

/// Asks, and waits for a line. `None` where nobody sits at a terminal, and after a signal.
pub(super) fn ask(cx: &Context<'_>, online: &Online, question: &str) -> Option<String> {
    let stdin = std::io::stdin();
    if cx.printer.is_json() || !cx.printer.is_terminal() || !stdin.is_terminal() {
        return None;
    }
    cx.printer.flush();
    cx.printer.question(question);
    // A thread of its own: one that waits for a line keeps no process from ending.
    let (to, from) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        if std::io::stdin()
            .read_line(&mut line)
            .is_ok_and(|read| read > 0)
        {
            // Nobody waits any more after a signal.
            drop(to.send(line));
        }
    });
    let line = online.run(async {
        tokio::select! {
            line = from => line.ok(),
            () = online.stop.cancelled() => None,
        }
    });
    let line = line.unwrap_or_default();
    Some(line.trim_end_matches(['\n', '\r']).to_owned())
}

/// A text as one word for a shell.
pub(super) fn for_a_shell(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&b);
    let begins_plain = !text.starts_with('-');
    if !text.is_empty() && begins_plain && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    //! A name is one word for a shell, whatever is in it.
    use super::*;

    #[test]
    fn a5_a_name_is_one_word_for_a_shell() {
        assert_eq!(for_a_shell("web_1"), "web_1");
        assert_eq!(for_a_shell("a b"), "'a b'");
        assert_eq!(for_a_shell("it's; rm"), "'it'\\''s; rm'");
        assert_eq!(for_a_shell(""), "''");
        assert_eq!(for_a_shell("-rf"), "'-rf'");
    }
}
