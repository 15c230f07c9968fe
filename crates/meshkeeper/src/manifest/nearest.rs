//! The known word that is nearest to a misspelt one.

/// The nearest of `known` to `word`, if one is near enough to be what was meant.
pub fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: Vec<char> = word.chars().take(80).collect();
    let room = word.len().div_ceil(3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(far, candidate)| *far <= room && *far < candidate.chars().count())
        .min_by_key(|(far, _)| *far)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, dropped, changed or swapped with their neighbour; case and the
/// difference of `-` and `_` cost nothing.
fn distance(word: &[char], other: &str) -> usize {
    let fold = |c: char| {
        if c == '-' {
            '_'
        } else {
            c.to_ascii_lowercase()
        }
    };
    let word: Vec<char> = word.iter().map(|c| fold(*c)).collect();
    let other: Vec<char> = other.chars().map(fold).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut best = (last[j] + usize::from(a != b))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            let swapped = i > 0 && j > 0 && *a == other[j - 1] && word[i - 1] == *b;
            if swapped {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! What a tired operator mistypes is recognised, and nothing far-fetched is suggested.
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_a_different_word_is_not() {
        let known = ["verify_every", "list_every", "url", "urls", "admin", "kind"];
        assert_eq!(nearest("verfiy_every", known), Some("verify_every"));
        assert_eq!(nearest("verify-every", known), Some("verify_every"));
        assert_eq!(nearest("URL", known), Some("url"));
        assert_eq!(nearest("adnim", known), Some("admin"));
        assert_eq!(nearest("password", known), None);
        assert_eq!(nearest("xyz", known), None);
        assert_eq!(nearest("", known), None);
    }
}
