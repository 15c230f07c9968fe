//! Names and texts as SQL writes them: data, whatever is in them.

/// A name in double quotes.
pub(super) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in single quotes, that means the same whatever `standard_conforming_strings` says.
pub(super) fn literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') {
        return format!("E'{}'", quoted.replace('\\', "\\\\"));
    }
    format!("'{quoted}'")
}

/// A name within a schema.
pub(super) fn within(schema: &str, name: &str) -> String {
    format!("{}.{}", ident(schema), ident(name))
}

/// Names with commas between them.
pub(super) fn idents<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(ident).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    //! What is in a name stays in it.
    use super::*;

    #[test]
    fn a5_names_and_texts_are_data() {
        assert_eq!(ident("a\"b; --"), "\"a\"\"b; --\"");
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("back\\slash'"), "E'back\\\\slash'''");
        assert_eq!(within("Sales", "x y"), "\"Sales\".\"x y\"");
        assert_eq!(idents(["a", "B"]), "\"a\", \"B\"");
    }
}
