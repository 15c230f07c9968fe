//! Times as the server tells them.

/// Nanoseconds since 1970 of a time such as `2026-11-30T14:09:22.235187489Z`.
pub(super) fn nanos(text: &str) -> Option<i128> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    if !(1..=12).contains(&month) || fraction.len() > 9 {
        return None;
    }
    let fraction = format!("{fraction:0<9}").parse::<i128>().ok()?;
    let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    Some(i128::from(seconds) * 1_000_000_000 + fraction)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let all: Vec<i64> = text
        .split(between)
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    all.try_into().ok()
}

/// Days since 1970-01-01: years begin in March here, so that the leap day is the last one.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    //! Known moments.
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        let second = |s: i128| Some(s * 1_000_000_000);
        assert_eq!(nanos("1970-01-01T00:00:00Z"), second(0));
        assert_eq!(nanos("2000-02-29T12:00:00Z"), second(951_825_600));
        assert_eq!(nanos("2026-11-30T14:09:22Z"), second(1_796_047_762));
        assert_eq!(
            nanos("2026-11-30T14:09:22.5Z"),
            Some(1_796_047_762_500_000_000)
        );
        for bad in [
            "",
            "2026-11-30",
            "2026-11-30T14:09:22+01:00",
            "2026-13-30T14:09:22Z",
            "xZ",
        ] {
            assert_eq!(nanos(bad), None, "{bad}");
        }
    }
}
