//! Text for statements: account statements take no parameters, so names are written out, quoted.
//!
//! The session's `sql_mode` is ours, so that a backslash escapes and double quotes are no names.

use super::rights::Rights;

/// A text as SQL writes it.
pub(super) fn text(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('\'');
    for c in value.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// A name as SQL writes it.
pub(super) fn name(value: &str) -> String {
    format!("`{}`", value.replace('`', "``"))
}

/// An account: a user and a host.
pub(super) fn account(user: &str, host: &str) -> String {
    format!("{}@{}", text(user), text(host))
}

/// A database as the pattern that means it and no other: `_` and `%` are wildcards there.
pub(super) fn pattern(database: &str) -> String {
    let mut escaped = String::with_capacity(database.len());
    for c in database.chars() {
        if matches!(c, '_' | '%' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// The one database that a pattern means: escaped as [`pattern`] does it, or as a person writes a name that
/// holds `_`. None where `%` stands for many.
pub(super) fn meant(pattern: &str) -> Option<String> {
    let mut name = String::with_capacity(pattern.len());
    let mut all = pattern.chars();
    while let Some(c) = all.next() {
        match c {
            '\\' => name.push(all.next()?),
            '%' => return None,
            c => name.push(c),
        }
    }
    let is_escaped = self::pattern(&name) == pattern;
    (is_escaped || name == pattern).then_some(name)
}

/// Gives rights on a database's pattern, or on the whole server.
pub(super) fn grant(rights: Rights, on: Option<&str>) -> String {
    format!("GRANT {} ON {} TO ", rights.names().join(", "), place(on))
}

/// Takes them back.
pub(super) fn revoke(rights: Rights, on: Option<&str>) -> String {
    format!(
        "REVOKE {} ON {} FROM ",
        rights.names().join(", "),
        place(on)
    )
}

fn place(on: Option<&str>) -> String {
    match on {
        Some(pattern) => format!("{}.*", name(pattern)),
        None => "*.*".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    //! What is quoted stays data.
    use super::*;

    #[test]
    fn a5_names_are_quoted_and_patterns_escaped() {
        assert_eq!(text(r"it's \ "), r"'it''s \\ '");
        assert_eq!(name("a`b"), "`a``b`");
        assert_eq!(account("-rf", "%"), "'-rf'@'%'");
        assert_eq!(pattern(r"my_db%\"), r"my\_db\%\\");
        for (kept, name) in [
            (r"my\_db\%\\", Some(r"my_db%\")),
            ("my_db", Some("my_db")),
            (r"a\_b_c", None),
            ("my%", None),
        ] {
            assert_eq!(meant(kept).as_deref(), name, "{kept}");
        }
        let rights = Rights::of_names(["SELECT", "INSERT"]);
        assert_eq!(
            grant(rights, Some(r"a\_b")),
            r"GRANT SELECT, INSERT ON `a\_b`.* TO "
        );
        assert_eq!(revoke(rights, None), "REVOKE SELECT, INSERT ON *.* FROM ");
    }
}
