//! One JSON object of strings, in order of their names.

use std::collections::BTreeMap;

use mesh_sdk::Secret;

use super::{FormatFault, Values};

/// The whole file, with a newline at its end.
pub(super) fn file(values: &Values) -> Result<Secret, FormatFault> {
    let mut texts = BTreeMap::new();
    for (name, value) in values {
        let text = value
            .expose_str()
            .ok_or_else(|| FormatFault::NotText(name.clone()))?;
        texts.insert(name.as_str(), text);
    }
    // A map of texts is always JSON.
    let mut out = serde_json::to_vec_pretty(&texts).unwrap_or_default();
    out.push(b'\n');
    Ok(Secret::new(out))
}

#[cfg(test)]
mod tests {
    //! What is read back is what was written.
    use super::*;

    #[test]
    fn o01_every_text_is_read_back_as_it_is() {
        let hostile = "p@ss/w:rd?#[%41]&=+{x} '\"\\\n\t\u{1}ü€😀</script>";
        let values = Values::from([
            ("A".to_owned(), Secret::from(hostile)),
            ("B".to_owned(), Secret::from("")),
        ]);
        let file = file(&values).expect("JSON");
        let back: BTreeMap<String, String> = serde_json::from_slice(file.expose()).expect("JSON");
        assert_eq!(back["A"], hostile);
        assert_eq!(back["B"], "");
        let bytes = Values::from([("A".to_owned(), Secret::new([0xff, 0xfe]))]);
        assert_eq!(
            super::file(&bytes),
            Err(FormatFault::NotText("A".to_owned()))
        );
    }
}
