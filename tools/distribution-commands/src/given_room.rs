//! Room that a user gives on the command line.

use std::str::FromStr;

/// A given number of replicas: `member1=18`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenRoom {
    /// The cluster.
    pub cluster: String,
    /// The replicas.
    pub replicas: i64,
}

impl FromStr for GivenRoom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('=').and_then(|(cluster, replicas)| {
            let replicas: u32 = replicas.parse().ok()?;
            (!cluster.is_empty()).then(|| Self {
                cluster: cluster.to_owned(),
                replicas: replicas.into(),
            })
        });
        parsed.ok_or_else(|| "write a cluster and a number, such as member1=18".to_owned())
    }
}
