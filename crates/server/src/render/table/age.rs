//! Durations as kubectl shows them: at most two units, and never more digits than matter.
//!
//! Source of the steps: `HumanDuration` of
//! <https://pkg.go.dev/k8s.io/apimachinery/pkg/util/duration>

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// A number of seconds in the short form; two seconds of clock skew are no error.
pub fn human_duration(seconds: i64) -> String {
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two_units(seconds, (MINUTE, "m"), (1, "s")),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two_units(seconds, (HOUR, "h"), (MINUTE, "m")),
        _ if seconds < 2 * DAY => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two_units(seconds, (DAY, "d"), (HOUR, "h")),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two_units(seconds, (YEAR, "y"), (DAY, "d")),
        _ => format!("{}y", seconds / YEAR),
    }
}

fn two_units(
    seconds: i64,
    (large, large_name): (i64, &str),
    (small, small_name): (i64, &str),
) -> String {
    let rest = seconds % large / small;
    let whole = seconds / large;
    if rest == 0 {
        format!("{whole}{large_name}")
    } else {
        format!("{whole}{large_name}{rest}{small_name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_in_kubectl() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 61, "3h1m"),
            (47 * HOUR, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 5 * HOUR, "2d5h"),
            (100 * DAY, "100d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 3 * DAY, "2y3d"),
            (9 * YEAR + DAY, "9y"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(human_duration(seconds), shown, "{seconds}");
        }
    }
}
