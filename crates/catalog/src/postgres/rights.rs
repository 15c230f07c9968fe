//! Rights as PostgreSQL has them: what is told of one that is missing or too many, and the statements that
//! give it and take it back.

use super::sql::{ident, literal, within};

/// A set of privileges, as the server names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Privs(u16);

const NAMES: [&str; 12] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
    "MAINTAIN",
    "USAGE",
    "CREATE",
    "CONNECT",
    "TEMPORARY",
];

impl Privs {
    pub(super) const NONE: Privs = Privs(0);
    pub(super) const SELECT: Privs = Privs(1);
    pub(super) const ROWS: Privs = Privs(0b1111);
    pub(super) const USAGE: Privs = Privs(1 << 8);
    pub(super) const CREATE: Privs = Privs(1 << 9);
    pub(super) const CONNECT: Privs = Privs(1 << 10);

    /// The privilege of a name; nothing for one that is not known here.
    pub(super) fn of(name: &str) -> Privs {
        let at = NAMES.iter().position(|known| *known == name);
        at.map_or(Privs::NONE, |at| Privs(1 << at))
    }
    pub(super) fn with(self, other: Privs) -> Privs {
        Privs(self.0 | other.0)
    }
    pub(super) fn without(self, other: Privs) -> Privs {
        Privs(self.0 & !other.0)
    }
    pub(super) fn holds(self, other: Privs) -> bool {
        self.0 & other.0 == other.0
    }
    /// How many there are.
    pub(super) const MANY: usize = NAMES.len();
    /// All of them, one by one.
    pub(super) fn every() -> impl Iterator<Item = Privs> {
        (0..Self::MANY).map(|at| Privs(1 << at))
    }
    /// The place of one among all of them.
    pub(super) fn place(self) -> Option<usize> {
        let at = self.0.trailing_zeros() as usize;
        (at < Self::MANY).then_some(at)
    }
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// As SQL lists them.
    pub(super) fn list(self) -> String {
        let named = NAMES.iter().enumerate();
        let names = named.filter(|(at, _)| self.0 & (1 << at) != 0);
        names.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
    }
}

/// What rows are in, or numbers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sort {
    Table,
    Sequence,
}

impl Sort {
    pub(super) const BOTH: [Sort; 2] = [Sort::Table, Sort::Sequence];

    /// From the letter that our queries give.
    pub(super) fn of(letter: &str) -> Self {
        match letter {
            "S" => Sort::Sequence,
            _ => Sort::Table,
        }
    }
    fn word(self) -> &'static str {
        match self {
            Sort::Table => "TABLE",
            Sort::Sequence => "SEQUENCE",
        }
    }
}

/// One right of a login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Right {
    /// On a database as a whole: to connect, to make schemas.
    Database { name: String, privs: Privs },
    /// To own a database.
    OwnDatabase(String),
    /// On a schema.
    Schema { name: String, privs: Privs },
    /// To have a schema that is not there.
    NewSchema(String),
    /// On tables or sequences that are there.
    On {
        sort: Sort,
        privs: Privs,
        names: Vec<(String, String)>,
    },
    /// On those that a role will make.
    Later {
        maker: String,
        schema: Option<String>,
        sort: Sort,
        privs: Privs,
    },
    /// To find an extension in its database.
    Extension { name: String, schema: String },
    /// What the keeper owns in its database, to be handed back: what to alter, and how it is called.
    Kept(Vec<(String, String)>),
    /// That the admin login may act for it, which all grants on what it owns need.
    Acted,
    /// To be, from the moment it logs in, the consumer's first login, with which it takes turns.
    Turn(String),
    /// So many connections at once; -1 for as many as it likes.
    Limit(i32),
}

/// A statement, or one that can be said for many logins at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// As it is.
    Plain(String),
    /// Something that ends in a list of logins: `GRANT … TO`.
    For(String),
}

impl Right {
    /// What a person reads of it.
    pub(super) fn told(&self) -> String {
        match self {
            Right::Database { name, privs } => format!("{} on database {name}", privs.list()),
            Right::OwnDatabase(name) => format!("ownership of database {name}"),
            Right::Schema { name, privs } => format!("{} on schema {name}", privs.list()),
            Right::NewSchema(name) => format!("schema {name}"),
            Right::On { privs, names, .. } => {
                let mut told = format!("{} on ", privs.list());
                let shown: Vec<String> = names
                    .iter()
                    .take(3)
                    .map(|(s, n)| format!("{s}.{n}"))
                    .collect();
                told.push_str(&shown.join(", "));
                if names.len() > shown.len() {
                    told.push_str(&format!(" and {} more", names.len() - shown.len()));
                }
                told
            }
            Right::Later {
                maker,
                schema,
                sort,
                privs,
            } => {
                let place = schema
                    .as_deref()
                    .map_or("any schema".to_owned(), |s| format!("schema {s}"));
                let word = sort.word().to_lowercase();
                format!("{} on later {word}s of {maker} in {place}", privs.list())
            }
            Right::Extension { name, .. } => format!("extension {name}"),
            Right::Kept(all) => format!("{} objects that the keeper owns", all.len()),
            Right::Acted => "the admin login's membership in it".to_owned(),
            Right::Turn(base) => format!("that it acts as {base}, with which it takes turns"),
            Right::Limit(limit) => format!("a connection limit of {limit}"),
        }
    }

    /// Gives it to a login.
    pub(super) fn give(&self, login: &str, major: u32) -> Vec<Step> {
        let who = ident(login);
        let plain = |text: String| vec![Step::Plain(text)];
        match self {
            Right::Database { name, privs } => {
                vec![Step::For(format!(
                    "GRANT {} ON DATABASE {} TO",
                    privs.list(),
                    ident(name)
                ))]
            }
            Right::OwnDatabase(name) => {
                plain(format!("ALTER DATABASE {} OWNER TO {who}", ident(name)))
            }
            Right::Schema { name, privs } => {
                vec![Step::For(format!(
                    "GRANT {} ON SCHEMA {} TO",
                    privs.list(),
                    ident(name)
                ))]
            }
            Right::NewSchema(name) => plain(format!(
                "CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {who}",
                ident(name)
            )),
            Right::On { sort, privs, names } => {
                let list = list_of(names);
                let word = sort.word();
                vec![Step::For(format!(
                    "GRANT {} ON {word} {list} TO",
                    privs.list()
                ))]
            }
            Right::Later { .. } => vec![Step::For(format!("{} TO", self.defaults("GRANT")))],
            // The search path says where it goes, if its makers do not.
            Right::Extension { name, schema } => [
                format!("SET LOCAL search_path = {}", ident(schema)),
                format!("CREATE EXTENSION IF NOT EXISTS {}", ident(name)),
                "SET LOCAL search_path = pg_catalog, pg_temp".to_owned(),
            ]
            .map(Step::Plain)
            .into(),
            Right::Kept(all) => {
                let alter = |(what, name): &(String, String)| {
                    Step::Plain(format!("ALTER {what} {name} OWNER TO {who}"))
                };
                all.iter().map(alter).collect()
            }
            Right::Acted => plain(act_for(login, major)),
            Right::Turn(base) => [
                format!("GRANT {} TO {who}{}", ident(base), fully(major)),
                format!("ALTER ROLE {who} SET role = {}", literal(base)),
            ]
            .map(Step::Plain)
            .into(),
            Right::Limit(limit) => plain(format!("ALTER ROLE {who} CONNECTION LIMIT {limit}")),
        }
    }

    /// Takes it back from a login.
    pub(super) fn take(&self, login: &str, keeper: &str) -> Vec<Step> {
        let revoke = |what: String| vec![Step::For(format!("REVOKE {what} FROM"))];
        match self {
            Right::Database { name, privs } => {
                revoke(format!("{} ON DATABASE {}", privs.list(), ident(name)))
            }
            Right::OwnDatabase(name) => {
                let to = ident(keeper);
                vec![Step::Plain(format!(
                    "ALTER DATABASE {} OWNER TO {to}",
                    ident(name)
                ))]
            }
            Right::Schema { name, privs } => {
                revoke(format!("{} ON SCHEMA {}", privs.list(), ident(name)))
            }
            Right::On { sort, privs, names } => revoke(format!(
                "{} ON {} {}",
                privs.list(),
                sort.word(),
                list_of(names)
            )),
            Right::Later { .. } => vec![Step::For(format!("{} FROM", self.defaults("REVOKE")))],
            Right::Limit(limit) => vec![Step::Plain(format!(
                "ALTER ROLE {} CONNECTION LIMIT {limit}",
                ident(login)
            ))],
            // Nothing of these is ever too much.
            Right::NewSchema(_)
            | Right::Extension { .. }
            | Right::Kept(_)
            | Right::Acted
            | Right::Turn(_) => Vec::new(),
        }
    }

    fn defaults(&self, verb: &str) -> String {
        let Right::Later {
            maker,
            schema,
            sort,
            privs,
        } = self
        else {
            return String::new();
        };
        let place = schema
            .as_deref()
            .map_or(String::new(), |s| format!(" IN SCHEMA {}", ident(s)));
        let (maker, privs, word) = (ident(maker), privs.list(), sort.word());
        format!("ALTER DEFAULT PRIVILEGES FOR ROLE {maker}{place} {verb} {privs} ON {word}S")
    }
}

/// Lets the admin login act for a role. From version 16 on, that is more than being able to grant it.
pub(super) fn act_for(login: &str, major: u32) -> String {
    format!("GRANT {} TO CURRENT_USER{}", ident(login), fully(major))
}

/// A membership with all that comes of one.
fn fully(major: u32) -> &'static str {
    if major >= 16 {
        " WITH INHERIT TRUE, SET TRUE"
    } else {
        ""
    }
}

fn list_of(names: &[(String, String)]) -> String {
    let all: Vec<String> = names
        .iter()
        .map(|(schema, name)| within(schema, name))
        .collect();
    all.join(", ")
}

/// What people read of several.
pub(super) fn told(rights: &[Right]) -> String {
    const MOST: usize = 6;
    let mut told: Vec<String> = rights.iter().take(MOST).map(Right::told).collect();
    if rights.len() > MOST {
        told.push(format!("{} more", rights.len() - MOST));
    }
    told.join("; ")
}

#[cfg(test)]
mod tests {
    //! Every name is quoted, in every statement (O-10).
    use super::*;

    #[test]
    fn o10_every_statement_quotes_every_name() {
        let names = vec![("Sales".to_owned(), "Or\"ders".to_owned())];
        let on = Right::On {
            sort: Sort::Table,
            privs: Privs::ROWS,
            names,
        };
        let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE \"Sales\".\"Or\"\"ders\" TO";
        assert_eq!(on.give("AppRead", 15), [Step::For(grant.to_owned())]);
        let later = Right::Later {
            maker: "Own".to_owned(),
            schema: Some("Sales".to_owned()),
            sort: Sort::Sequence,
            privs: Privs::SELECT,
        };
        let revoke = "ALTER DEFAULT PRIVILEGES FOR ROLE \"Own\" IN SCHEMA \"Sales\" \
                      REVOKE SELECT ON SEQUENCES FROM";
        assert_eq!(later.take("AppRead", "k"), [Step::For(revoke.to_owned())]);
        let own = Right::OwnDatabase("Shop-DB".to_owned());
        let alter = "ALTER DATABASE \"Shop-DB\" OWNER TO \"AppRead\"";
        assert_eq!(own.give("AppRead", 15), [Step::Plain(alter.to_owned())]);
        assert_eq!(
            act_for("A", 16),
            "GRANT \"A\" TO CURRENT_USER WITH INHERIT TRUE, SET TRUE"
        );
    }

    #[test]
    fn privileges_are_sets_with_names() {
        let both = Privs::SELECT
            .with(Privs::of("TRUNCATE"))
            .with(Privs::of("no such"));
        assert_eq!(both.list(), "SELECT, TRUNCATE");
        assert_eq!(both.without(Privs::ROWS).list(), "TRUNCATE");
        assert!(Privs::ROWS.holds(Privs::SELECT) && !Privs::SELECT.holds(Privs::ROWS));
        assert_eq!(Privs::every().filter(|one| both.holds(*one)).count(), 2);
    }
}
