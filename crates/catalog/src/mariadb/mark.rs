//! The mark as rights that grant nothing: CREATE on tables that do not exist, in databases that do not.
//!
//! Such a right is kept with the account: dropping the account drops it, so a login that is made anew under
//! the same name never inherits a mark; a new password, a lock, a rename keep it; dumps of accounts,
//! replication and clusters carry it like any other right.

use std::collections::BTreeMap;

use mesh_sdk::Marker;

use super::sql;

/// How much of a mark goes into one database's name, beside the prefix. MariaDB takes 64 characters.
const PART: usize = 60;

/// One right of a mark: a database and a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) database: String,
    pub(super) table: String,
}

/// A mark's text in pieces: most have one, those of very long names up to four.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let rest = text.strip_prefix(Marker::PREFIX).unwrap_or(text);
    let (body, seal) = rest.rsplit_once('.').unwrap_or((rest, ""));
    let parts: Vec<&[u8]> = body.as_bytes().chunks(PART).collect();
    let count = parts.len();
    let piece = |(at, part): (usize, &&[u8])| Piece {
        database: format!("{}{}", Marker::PREFIX, String::from_utf8_lossy(part)),
        table: format!("{}-{count}.{seal}", at + 1),
    };
    parts.iter().enumerate().map(piece).collect()
}

/// The texts of all marks that an account's pieces make. Pieces that make no whole are a damaged mark.
pub(super) fn texts(pieces: &[Piece]) -> Vec<String> {
    // Nearly all have one, in one piece.
    if let [only] = pieces
        && let Some((1, 1, seal, body)) = read(only)
    {
        return vec![format!("{}{body}.{seal}", Marker::PREFIX)];
    }
    // By seal and count, the parts with their places.
    let mut marks: BTreeMap<(&str, usize), Vec<(usize, &str)>> = BTreeMap::new();
    let mut texts = Vec::new();
    for piece in pieces {
        let Some((at, count, seal, part)) = read(piece) else {
            texts.push(Marker::PREFIX.to_owned());
            continue;
        };
        marks.entry((seal, count)).or_default().push((at, part));
    }
    for ((seal, count), mut parts) in marks {
        parts.sort_unstable();
        let whole = parts.iter().map(|(at, _)| *at).eq(1..=count);
        texts.push(match whole {
            true => {
                let body: String = parts.iter().map(|(_, part)| *part).collect();
                format!("{}{body}.{seal}", Marker::PREFIX)
            }
            false => Marker::PREFIX.to_owned(),
        });
    }
    texts
}

fn read(piece: &Piece) -> Option<(usize, usize, &str, &str)> {
    let part = piece.database.strip_prefix(Marker::PREFIX)?;
    let (place, seal) = piece.table.split_once('.')?;
    let (at, count) = place.split_once('-')?;
    Some((at.parse().ok()?, count.parse().ok()?, seal, part))
}

impl Piece {
    fn place(&self) -> String {
        format!("{}.{}", sql::name(&self.database), sql::name(&self.table))
    }
    pub(super) fn grant(&self) -> String {
        format!("GRANT CREATE ON {} TO ", self.place())
    }
    pub(super) fn revoke(&self) -> String {
        format!("REVOKE CREATE ON {} FROM ", self.place())
    }
}

#[cfg(test)]
mod tests {
    //! A mark comes back as it went in, or as damaged.
    use super::*;

    fn long() -> String {
        let name = "x".repeat(63);
        format!("mk1.{name}.i1.{name}.{name}.abcdefghijklmnopqrstuvwx")
    }

    #[test]
    fn r11_a_mark_comes_back_from_its_pieces() {
        let short = "mk1.home.i1.database.web.abcdefghijklmnopqrstuvwx".to_owned();
        assert_eq!(pieces(&short).len(), 1);
        assert_eq!(
            pieces(&short)[0].grant(),
            "GRANT CREATE ON `mk1.home.i1.database.web`.`1-1.abcdefghijklmnopqrstuvwx` TO "
        );
        for text in [short, long()] {
            let mut all = pieces(&text);
            all.reverse();
            assert!(
                all.iter()
                    .all(|p| p.database.len() <= 64 && p.table.len() <= 64)
            );
            assert_eq!(texts(&all), [text]);
        }
        assert_eq!(pieces(&long()).len(), 4);
    }

    #[test]
    fn r4_a_mark_that_is_not_whole_is_damaged() {
        let mut all = pieces(&long());
        all.remove(1);
        assert_eq!(texts(&all), [Marker::PREFIX]);
        let other = Piece {
            database: "mk1.home".to_owned(),
            table: "orders".to_owned(),
        };
        assert_eq!(texts(&[other]), [Marker::PREFIX]);
        assert!(texts(&[]).is_empty());
    }
}
