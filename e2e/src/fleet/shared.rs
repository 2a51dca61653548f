//! One fleet for all tests of a test program.

use anyhow::{Context, Result, ensure};
use tokio::sync::OnceCell;

use super::{Fleet, Options};

static SHARED: OnceCell<(Options, Fleet)> = OnceCell::const_new();

impl Fleet {
    /// The fleet that all tests of this program share: the first caller starts it, the end of the program stops it.
    ///
    /// Every caller has to ask for the same options. Use [`unique`](super::unique) names, and do not stop servers that
    /// other tests use: a test that does belongs in a program of its own, or starts its own fleet.
    pub async fn shared(options: Options) -> Result<&'static Self> {
        let start = || async {
            let fleet = Self::start(options.clone()).await?;
            Ok::<_, anyhow::Error>((options.clone(), fleet))
        };
        let (started, fleet) = SHARED
            .get_or_try_init(start)
            .await
            .context("starting the shared fleet")?;
        ensure!(
            *started == options,
            "the shared fleet was started with {started:?}, but {options:?} was asked for"
        );
        Ok(fleet)
    }
}
