//! What a caller may both list and watch.

use fleetdex_core::query::Permitted;
use fleetdex_query_api::{question::ListRequest, watch_options::WatchOptions};

use super::AcrossKinds;
use crate::{api_error::ApiError, auth::authorize::Permission};

impl AcrossKinds<'_> {
    /// What of a request for one resource the caller may both list and watch; `None`: nothing.
    /// A warning says what the caller may only list.
    pub(in crate::read) async fn watchable(
        &self,
        request: &ListRequest,
    ) -> Result<Option<Permission>, ApiError> {
        let Some(listed) = self.permission(request).await? else {
            return Ok(None);
        };
        let watch = ListRequest {
            watch_options: WatchOptions {
                watch: true,
                ..WatchOptions::default()
            },
            ..request.clone()
        };
        let watched = self.permission(&watch).await?;
        let watched = watched.map_or_else(nothing, |permission| permission.permitted);
        let permitted = both(&listed.permitted, &watched);
        let mut warnings = listed.warnings;
        if permitted.canonical() != listed.permitted.canonical() {
            warnings.push(format!(
                "the watch leaves out {} that you may list but not watch",
                request.resource.plural
            ));
        }
        Ok(Some(Permission {
            permitted,
            warnings,
        }))
    }
}

fn nothing() -> Permitted {
    Permitted::Only(Vec::new())
}

/// What both permissions allow.
fn both(listed: &Permitted, watched: &Permitted) -> Permitted {
    match watched {
        _ if listed == watched => listed.clone(),
        Permitted::Everything => listed.clone(),
        Permitted::Only(grants) => listed.within(grants),
    }
}
