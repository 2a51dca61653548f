//! Query parameters of lists that Kubernetes does not have: order, owners, times, and parts of the
//! result.

use fleetdex_core::query::ResourceName;
use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    tz::TimeZone,
};

use super::flag::flag;

/// The boolean parameters.
const FLAGS: [&str; 4] = [
    "onlyMetadata",
    "withRemainingCount",
    "withContinue",
    "explain",
];
/// Keys of one order at most.
const MAX_ORDER: usize = 8;
/// Generations that an owner search walks at most: each takes requests of its own. A Pod is two
/// from its Deployment.
pub const MAX_SENIORITY: usize = 8;
/// Owners that one request names at most.
const MAX_OWNERS: usize = 100;

/// Options of a list that Kubernetes does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchOptions {
    /// Fields to order by, most important first; empty: the default order.
    pub order_by: Vec<OrderBy>,
    /// Only dependants of these owners.
    pub owner: OwnerSearch,
    /// Only objects created at this time or later, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Only objects created before, in milliseconds since 1970.
    pub before: Option<i64>,
    /// Only the metadata of objects.
    pub only_metadata: bool,
    /// Leave `remainingItemCount` out.
    pub without_remaining_count: bool,
    /// Explain the query instead of running it.
    pub explain: bool,
}

/// One field of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderBy {
    /// As the client names it.
    pub field: String,
    /// Largest first.
    pub descending: bool,
}

/// The owners whose dependants are listed, by UID or by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerSearch {
    /// UIDs of owners.
    pub uids: Vec<String>,
    /// Names of owners.
    pub names: Vec<String>,
    /// The resource of owners that are named; absent: any.
    pub resource: Option<ResourceName>,
    /// How many generations are between owner and dependant.
    pub seniority: Seniority,
}

/// How many generations are between an owner and its dependants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seniority {
    /// Exactly so many.
    Exactly(usize),
    /// Any number up to [`MAX_SENIORITY`].
    Any,
}

impl Default for Seniority {
    fn default() -> Self {
        Self::Exactly(0)
    }
}

impl OwnerSearch {
    /// Whether the request names owners.
    pub fn is_given(&self) -> bool {
        !self.uids.is_empty() || !self.names.is_empty()
    }
}

impl SearchOptions {
    /// The parameters that are understood here.
    pub const KNOWN: [&'static str; 11] = [
        "orderBy",
        "ownerUID",
        "ownerName",
        "ownerGR",
        "ownerSeniority",
        "since",
        "before",
        "onlyMetadata",
        "withRemainingCount",
        "withContinue",
        "explain",
    ];

    /// Sets a parameter; false if it is none of [`KNOWN`](Self::KNOWN). An empty value means that
    /// the parameter is not given, as in Kubernetes, except for booleans, where it is true.
    pub fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        if value.is_empty() && !FLAGS.contains(&key) {
            return Ok(Self::KNOWN.contains(&key) || key == "orderby");
        }
        match key {
            "orderBy" | "orderby" => self.order_by = order_by(value)?,
            "ownerUID" => self.owner.uids = words(value)?,
            "ownerName" => self.owner.names = words(value)?,
            "ownerGR" => self.owner.resource = Some(group_resource(value)?),
            "ownerSeniority" => self.owner.seniority = seniority(value)?,
            "since" => self.since = Some(time(value)?),
            "before" => self.before = Some(time(value)?),
            "onlyMetadata" => self.only_metadata = flag(value),
            "withRemainingCount" => self.without_remaining_count = !flag(value),
            "withContinue" if flag(value) => {}
            "withContinue" => {
                return Err(
                    "a page without its continue token cannot be continued; leave it out"
                        .to_owned(),
                );
            }
            "explain" => self.explain = flag(value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses parameters that lack the one they belong to.
    pub fn check(&self) -> Result<(), String> {
        let owner = &self.owner;
        if !owner.is_given() && owner.seniority != Seniority::default() {
            return Err("parameter ownerSeniority: there is no ownerUID or ownerName".to_owned());
        }
        if owner.names.is_empty() && owner.resource.is_some() {
            return Err("parameter ownerGR: there is no ownerName".to_owned());
        }
        Ok(())
    }
}

fn words(value: &str) -> Result<Vec<String>, String> {
    let words: Vec<String> = value.split(',').map(str::to_owned).collect();
    if words.iter().any(String::is_empty) {
        return Err(format!("{value:?} has an empty item"));
    }
    if words.len() > MAX_OWNERS {
        return Err(format!(
            "{} owners, and at most {MAX_OWNERS} are possible; ask in several requests",
            words.len()
        ));
    }
    Ok(words)
}

/// `field`, `field asc`, `field desc`, separated by commas.
fn order_by(value: &str) -> Result<Vec<OrderBy>, String> {
    let mut order: Vec<OrderBy> = Vec::new();
    for item in value.split(',') {
        let mut parts = item.split_ascii_whitespace();
        let (field, direction) = (
            parts.next().unwrap_or_default(),
            parts.next().unwrap_or("asc"),
        );
        if field.is_empty() {
            return Err(format!("{value:?} has an empty item"));
        }
        let descending = match (direction.to_ascii_lowercase().as_str(), parts.next()) {
            ("asc", None) => false,
            ("desc", None) => true,
            _ => {
                return Err(format!(
                    "{item:?} is neither `field`, `field asc` nor `field desc`"
                ));
            }
        };
        if order.iter().any(|known| known.field == field) {
            return Err(format!("{field} is given twice"));
        }
        if order.len() == MAX_ORDER {
            return Err(format!("at most {MAX_ORDER} fields are possible"));
        }
        order.push(OrderBy {
            field: field.to_owned(),
            descending,
        });
    }
    Ok(order)
}

/// `deployments.apps`, or `pods`.
fn group_resource(value: &str) -> Result<ResourceName, String> {
    let (plural, group) = value.split_once('.').unwrap_or((value, ""));
    let is_name = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte))
    };
    if plural.is_empty() || !is_name(plural) || !is_name(group) {
        return Err(format!(
            "{value:?} is not a resource such as pods or deployments.apps"
        ));
    }
    Ok(ResourceName::new(group, plural))
}

fn seniority(value: &str) -> Result<Seniority, String> {
    match value.parse() {
        _ if value == "any" => Ok(Seniority::Any),
        Ok(number) if number <= MAX_SENIORITY => Ok(Seniority::Exactly(number)),
        _ => Err(format!(
            "{value:?} is neither a number of generations from 0 to {MAX_SENIORITY} nor `any`"
        )),
    }
}

/// RFC 3339, a date with or without a time (UTC), or seconds (10 digits) or milliseconds (13)
/// since 1970.
fn time(value: &str) -> Result<i64, String> {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let number = || value.parse::<i64>().ok();
    let milliseconds = match value.len() {
        10 if is_number => number().map(|seconds| seconds * 1_000),
        13 if is_number => number(),
        _ => value
            .parse::<Timestamp>()
            .map(Timestamp::as_millisecond)
            .ok()
            .or_else(|| civil(value)),
    };
    milliseconds.ok_or_else(|| {
        format!(
            "{value:?} is not a time such as 2026-01-31T10:00:00Z, 2026-01-31 10:00:00, 2026-01-31, or Unix seconds or milliseconds"
        )
    })
}

/// Reads only these two forms; jiff would read more.
fn civil(value: &str) -> Option<i64> {
    let local = match value.len() {
        10 => value
            .parse::<Date>()
            .ok()?
            .to_datetime(jiff::civil::Time::midnight()),
        19 if value.as_bytes()[10] == b' ' => value.parse::<DateTime>().ok()?,
        _ => return None,
    };
    local
        .to_zoned(TimeZone::UTC)
        .ok()
        .map(|zoned| zoned.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(key: &str, value: &str) -> Result<SearchOptions, String> {
        let mut options = SearchOptions::default();
        assert!(options.set(key, value)?);
        options.check().map(|()| options)
    }

    #[test]
    fn an_order_is_a_list_of_fields() {
        let order = set("orderBy", "status.phase desc,name").unwrap().order_by;
        let by = |field: &str, descending| OrderBy {
            field: field.to_owned(),
            descending,
        };
        assert_eq!(order, [by("status.phase", true), by("name", false)]);
        for refused in [
            "a,,b",
            "a down",
            "a asc b",
            "a,a desc",
            "a,b,c,d,e,f,g,h,i",
            " ",
        ] {
            assert!(set("orderBy", refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn times_are_read_in_all_their_forms() {
        let since = |value: &str| set("since", value).map(|options| options.since.unwrap());
        let noon = since("2026-01-31T12:00:00Z").unwrap();
        for same in [
            "2026-01-31T13:00:00+01:00",
            "2026-01-31 12:00:00",
            "1769860800",
            "1769860800000",
        ] {
            assert_eq!(since(same), Ok(noon), "{same}");
        }
        assert_eq!(since("2026-01-31"), Ok(noon - 12 * 3_600_000));
        assert_eq!(
            set("before", "2026-01-31").unwrap().before,
            Some(noon - 12 * 3_600_000)
        );
        for refused in [
            "yesterday",
            "17698608000",
            "2026-02-31",
            "2026-01-31T12:00:00",
            "12:00",
            "-1769860800",
            "2026-W05-6",
        ] {
            assert!(
                since(refused)
                    .unwrap_err()
                    .contains("is not a time such as"),
                "{refused}"
            );
        }
    }

    #[test]
    fn owners_are_named_by_uid_or_by_name_and_resource() {
        assert_eq!(set("ownerUID", "a,b").unwrap().owner.uids, ["a", "b"]);
        let mut options = set("ownerName", "web").unwrap();
        options.set("ownerGR", "deployments.apps").unwrap();
        options.set("ownerSeniority", "1").unwrap();
        assert_eq!(
            options.owner.resource,
            Some(ResourceName::new("apps", "deployments"))
        );
        assert_eq!(options.owner.seniority, Seniority::Exactly(1));
        assert!(
            set("ownerSeniority", "1")
                .unwrap_err()
                .contains("there is no ownerUID or ownerName")
        );
        assert!(
            set("ownerGR", "pods")
                .unwrap_err()
                .contains("there is no ownerName")
        );
        for (key, value) in [
            ("ownerSeniority", "9"),
            ("ownerSeniority", "-1"),
            ("ownerGR", "Pods"),
            ("ownerGR", ".apps"),
            ("ownerUID", "a,"),
        ] {
            assert!(set(key, value).is_err(), "{key}={value}");
        }
    }

    #[test]
    fn flags_are_true_or_false_and_nothing_is_no_parameter() {
        assert!(set("onlyMetadata", "true").unwrap().only_metadata);
        assert!(
            set("withRemainingCount", "0")
                .unwrap()
                .without_remaining_count
        );
        assert!(set("explain", "yes").unwrap().explain && set("explain", "").unwrap().explain);
        assert!(set("withContinue", "true").is_ok() && set("withContinue", "false").is_err());
        assert_eq!(set("since", "").unwrap(), SearchOptions::default());
        assert_eq!(SearchOptions::default().set("color", "red"), Ok(false));
        assert_eq!(SearchOptions::default().set("color", ""), Ok(false));
    }
}
