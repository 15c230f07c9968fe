//! Moving an installation from one bus to another: everything on the old one in a file of JSON lines, and
//! from there onto a new one.
//!
//! No plain secret is on a bus (B-3), so none is in the file; whoever moves takes `secrets.db` and its key
//! along in the data folder. A file that was cut off is refused before anything is written. Importing again
//! changes nothing. Revisions are not moved: they belong to the bus that gave them.

use std::io::{BufRead, Write as Out};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::bus::{Bucket, Bus, Expect, Fault, Key, Put, Write};
use serde::{Deserialize, Serialize};

/// The file's form.
const FORM: u32 = 1;
/// So many entries are read, or written, at once.
const PART: usize = 1000;

/// Why an installation could not be moved.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TransferFault {
    /// The bus.
    #[error(transparent)]
    Bus(#[from] Fault),
    /// The file cannot be read or written.
    #[error("the file cannot be used: {0}")]
    File(#[from] std::io::Error),
    /// It is no export, or was damaged.
    #[error("line {line} of the file is not of an export: {why}")]
    Line {
        /// The line, from one.
        line: usize,
        /// Why.
        why: String,
    },
    /// It was written by a newer program.
    #[error("the file has form {found}, and this program knows up to {FORM}: use a newer program")]
    Newer {
        /// Its form.
        found: u32,
    },
    /// It is not whole.
    #[error("the file is cut off: export again; nothing was written")]
    CutOff,
    /// It is another installation's.
    #[error("the file is of installation {found}, and the bus is of {ours}; nothing was written")]
    Installation {
        /// The file's.
        found: String,
        /// The bus's.
        ours: String,
    },
    /// The new bus holds something else there.
    #[error(
        "the bus holds {count} other values already, {first} first: import onto a bus that nobody used; those were left as they are"
    )]
    Differs {
        /// How many.
        count: usize,
        /// The first.
        first: String,
    },
    /// Some outcomes are not known.
    #[error("{0} writes are not known: import the same file again")]
    Unknown(usize),
}

/// How much was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Moved {
    /// Values.
    pub values: usize,
    /// Lines of the history.
    pub lines: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Export {
        form: u32,
        installation: String,
    },
    Value {
        bucket: Bucket,
        key: String,
        value: Text,
    },
    History {
        subject: String,
        value: String,
    },
    End(Moved),
}

/// A value: text as it is, other bytes in base64.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Text {
    Text(String),
    Base64(String),
}

impl Text {
    fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(
            |error| Text::Base64(STANDARD.encode(error.as_bytes())),
            Text::Text,
        )
    }
    fn bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Text::Text(text) => Ok(text.into_bytes()),
            Text::Base64(text) => STANDARD.decode(text).map_err(|error| error.to_string()),
        }
    }
}

/// Whether a value belongs to the bus that it lies on, and not to the installation.
fn stays(bucket: Bucket, key: &Key) -> bool {
    let is_a_host = key.as_str().starts_with("member.");
    bucket == Bucket::Loop && (is_a_host || crate::claim::Lease::is_at(key))
}

/// Writes everything on a bus that nobody writes to meanwhile.
pub async fn export(
    bus: &dyn Bus,
    installation: &str,
    file: &mut (dyn Out + Send),
) -> Result<Moved, TransferFault> {
    let mut moved = Moved::default();
    let head = Line::Export {
        form: FORM,
        installation: installation.to_owned(),
    };
    say(file, &head)?;
    for bucket in Bucket::ALL {
        let mut after: Option<Key> = None;
        loop {
            let everything = Key::everything();
            let part = bus.list_part(bucket, &everything, after.as_ref(), PART);
            let part = part.await?.entries;
            let ends = part.len() < PART;
            after = part.last().map(|entry| entry.key.clone());
            for entry in part.into_iter().filter(|entry| !stays(bucket, &entry.key)) {
                let line = Line::Value {
                    bucket,
                    key: entry.key.to_string(),
                    value: Text::of(entry.value),
                };
                say(file, &line)?;
                moved.values += 1;
            }
            if ends {
                break;
            }
        }
    }
    for line in bus.history(&Key::everything(), 0, usize::MAX).await? {
        let (subject, value) = (line.subject, line.value);
        say(file, &Line::History { subject, value })?;
        moved.lines += 1;
    }
    say(file, &Line::End(moved))?;
    file.flush()?;
    Ok(moved)
}

fn say(file: &mut (dyn Out + Send), line: &Line) -> Result<(), TransferFault> {
    let mut text = serde_json::to_vec(line).map_err(std::io::Error::other)?;
    text.push(b'\n');
    Ok(file.write_all(&text)?)
}

struct Read {
    values: Vec<(Bucket, Write)>,
    lines: Vec<(Key, String)>,
}

/// Writes what a file holds onto a bus of the same installation that is empty, or holds the same.
pub async fn import(
    bus: &dyn Bus,
    installation: &str,
    file: &mut (dyn BufRead + Send),
) -> Result<Moved, TransferFault> {
    let Read { values, lines } = read(file, installation)?;
    let moved = Moved {
        values: values.len(),
        lines: lines.len(),
    };
    let mut other = Vec::new();
    let mut unknown = 0;
    for bucket in Bucket::ALL {
        let of_bucket: Vec<&Write> = values
            .iter()
            .filter_map(|(b, write)| (*b == bucket).then_some(write))
            .collect();
        for part in of_bucket.chunks(PART) {
            let writes = part.iter().map(|write| (*write).clone()).collect();
            let puts = bus.put_each(bucket, writes).await?;
            for (write, put) in part.iter().zip(puts) {
                if matches!(put, Put::Done(_)) {
                    continue;
                }
                match bus.get(bucket, &write.key).await? {
                    Some(entry) if entry.value == write.value => {}
                    Some(_) => other.push(format!("{}/{}", bucket.as_str(), write.key)),
                    None => unknown += 1,
                }
            }
        }
    }
    if let Some(first) = other.first() {
        let (count, first) = (other.len(), first.clone());
        return Err(TransferFault::Differs { count, first });
    }
    if unknown > 0 {
        return Err(TransferFault::Unknown(unknown));
    }
    // Lines have no keys: a history that was begun already is not written a second time.
    if bus.history(&Key::everything(), 0, 1).await?.is_empty() {
        bus.append(lines).await?;
    }
    Ok(moved)
}

/// Reads a file to its end, and gives nothing of one that is not whole.
fn read(file: &mut (dyn BufRead + Send), ours: &str) -> Result<Read, TransferFault> {
    let mut read = Read {
        values: Vec::new(),
        lines: Vec::new(),
    };
    let mut ended = None;
    for (n, text) in file.lines().enumerate() {
        let at = n + 1;
        let wrong = |why: String| TransferFault::Line { line: at, why };
        let line: Line = serde_json::from_str(&text?).map_err(|error| wrong(error.to_string()))?;
        match (line, n) {
            (Line::Export { form, .. }, 0) if form > FORM => {
                return Err(TransferFault::Newer { found: form });
            }
            (Line::Export { installation, .. }, 0) if installation != ours => {
                let (found, ours) = (installation, ours.to_owned());
                return Err(TransferFault::Installation { found, ours });
            }
            (Line::Export { .. }, 0) => {}
            (_, 0) => return Err(wrong("it does not begin as one".to_owned())),
            (_, _) if ended.is_some() => return Err(wrong("it goes on after its end".to_owned())),
            (Line::Export { .. }, _) => return Err(wrong("a second one begins".to_owned())),
            (Line::Value { bucket, key, value }, _) => {
                let write = Write {
                    key: Key::from_stored(key),
                    expect: Expect::Absent,
                    value: value.bytes().map_err(wrong)?,
                };
                read.values.push((bucket, write));
            }
            (Line::History { subject, value }, _) => {
                read.lines.push((Key::from_stored(subject), value));
            }
            (Line::End(moved), _) => ended = Some(moved),
        }
    }
    let whole = Moved {
        values: read.values.len(),
        lines: read.lines.len(),
    };
    if ended != Some(whole) {
        return Err(TransferFault::CutOff);
    }
    Ok(read)
}
