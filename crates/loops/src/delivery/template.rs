//! Texts with places for values: `{url}`, `{database.password}`.

use std::fmt;

use mesh_sdk::Secret;

/// What may stand between braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// Everything that a client needs, as one URL. Each part is percent-encoded once.
    Url,
    /// The login.
    User,
    /// The password.
    Password,
    /// The server's name or number, as the manifest says it, without brackets.
    Host,
    /// The port.
    Port,
    /// What stands behind the address: the database, the virtual host.
    Name,
}

impl Word {
    /// Every word.
    pub const ALL: [Word; 6] = [
        Word::Url,
        Word::User,
        Word::Password,
        Word::Host,
        Word::Port,
        Word::Name,
    ];
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Word::Url => "url",
            Word::User => "user",
            Word::Password => "password",
            Word::Host => "host",
            Word::Port => "port",
            Word::Name => "name",
        }
    }
    fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|word| word.as_str() == text)
    }
}

/// A place for a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Of which provider; `None`: of the only one.
    pub provider: Option<String>,
    /// Which value.
    pub word: Word,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Place(Place),
}

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateFault {
    /// A brace that nothing closes, or that closes nothing.
    #[error("a `{0}` stands alone; write `{0}{0}` for the sign itself")]
    Brace(char),
    /// An unknown word.
    #[error(
        "`{{{0}}}` is not known; write {{url}}, {{user}}, {{password}}, {{host}}, {{port}} or {{name}}, with the provider before it where there are several: {{database.url}}"
    )]
    Unknown(String),
}

impl Template {
    /// Reads a text. `{{` and `}}` are braces.
    pub fn parse(text: &str) -> Result<Self, TemplateFault> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = if rest[at..].starts_with('{') {
                '{'
            } else {
                '}'
            };
            let after = &rest[at + 1..];
            if let Some(after) = after.strip_prefix(brace) {
                plain.push(brace);
                rest = after;
                continue;
            }
            let end = after
                .find(['{', '}'])
                .filter(|end| brace == '{' && after[*end..].starts_with('}'));
            let end = end.ok_or(TemplateFault::Brace(brace))?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(Part::Place(place(&after[..end])?));
            rest = &after[end + 1..];
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }
    /// One place and nothing else.
    pub fn of(provider: &str, word: Word) -> Self {
        let provider = Some(provider.to_owned());
        Self(vec![Part::Place(Place { provider, word })])
    }
    /// Its places.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.0.iter().filter_map(|part| match part {
            Part::Place(place) => Some(place),
            Part::Text(_) => None,
        })
    }
    /// The text with every place filled in. Errors: the first place that has no value.
    pub fn fill(&self, mut value: impl FnMut(&Place) -> Option<Secret>) -> Result<Secret, &Place> {
        let mut bytes = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                Part::Place(place) => {
                    let value = value(place).ok_or(place)?;
                    bytes.extend_from_slice(value.expose());
                }
            }
        }
        Ok(Secret::new(bytes))
    }
}

fn place(text: &str) -> Result<Place, TemplateFault> {
    let (provider, word) = match text.rsplit_once('.') {
        Some((provider, word)) => (Some(provider.to_owned()), word),
        None => (None, text),
    };
    let word = Word::of(word).ok_or_else(|| TemplateFault::Unknown(text.to_owned()))?;
    Ok(Place { provider, word })
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.provider {
            Some(provider) => write!(f, "{{{provider}.{}}}", self.word.as_str()),
            None => write!(f, "{{{}}}", self.word.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Places are filled, braces are braces, and anything else is refused with its name.
    use super::*;

    fn filled(text: &str) -> String {
        let template = Template::parse(text).expect("template");
        let value =
            template.fill(|place| Some(Secret::from(place.to_string().replace(['{', '}'], "|"))));
        value
            .expect("filled")
            .expose_str()
            .expect("UTF-8")
            .to_owned()
    }

    #[test]
    fn places_are_filled_and_doubled_braces_are_braces() {
        assert_eq!(filled("a {url} b"), "a |url| b");
        assert_eq!(
            filled("{database.user}:{cache.port}"),
            "|database.user|:|cache.port|"
        );
        assert_eq!(filled("{{x}} {name}"), "{x} |name|");
        assert_eq!(filled(""), "");
        assert_eq!(filled("no places"), "no places");
    }

    #[test]
    fn what_is_no_place_is_refused_with_its_name() {
        for (text, brace) in [("a {", '{'), ("a } b", '}'), ("{url", '{'), ("{ur{l}", '{')] {
            assert_eq!(
                Template::parse(text),
                Err(TemplateFault::Brace(brace)),
                "{text}"
            );
        }
        for text in [
            "{}",
            "{nothing}",
            "{database.}",
            "{database.nothing}",
            "{URL}",
        ] {
            assert!(
                matches!(Template::parse(text), Err(TemplateFault::Unknown(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn a_place_without_a_value_is_named() {
        let template = Template::parse("{url}{database.port}").expect("template");
        let place = template.fill(|place| (place.word == Word::Url).then(|| Secret::from("x")));
        assert_eq!(
            place.map_err(ToString::to_string),
            Err("{database.port}".to_owned())
        );
    }
}
