//! Styles, scripts and the icon, built into the program. Their addresses change with their content,
//! so that browsers may keep them.

use std::sync::LazyLock;

use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use sha2::{Digest as _, Sha256};

use crate::response::{ROOT, text_response};

/// A file: its name, media type and content.
type Asset = (&'static str, &'static str, &'static str);

const STYLE: &str = "text/css; charset=utf-8";
const ICON: &str = "image/svg+xml";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ASSETS: [Asset; 10] = [
    ("page.css", STYLE, include_str!("../assets/page.css")),
    ("icon.svg", ICON, include_str!("../assets/icon.svg")),
    ("page.js", SCRIPT, include_str!("../assets/page.js")),
    ("complete.js", SCRIPT, include_str!("../assets/complete.js")),
    ("copy.js", SCRIPT, include_str!("../assets/copy.js")),
    ("keys.js", SCRIPT, include_str!("../assets/keys.js")),
    ("live.js", SCRIPT, include_str!("../assets/live.js")),
    ("load.js", SCRIPT, include_str!("../assets/load.js")),
    ("update.js", SCRIPT, include_str!("../assets/update.js")),
    ("yaml.js", SCRIPT, include_str!("../assets/yaml.js")),
];
/// A year: the address changes when the content does.
const KEPT: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

static DIGEST: LazyLock<String> = LazyLock::new(|| {
    let mut hash = Sha256::new();
    for (name, _, content) in ASSETS {
        hash.update(name);
        hash.update(content);
    }
    let start = hash.finalize().as_slice().first_chunk().copied();
    format!("{:016x}", start.map_or(0, u64::from_be_bytes))
});

/// The address of a file.
pub(crate) fn address(name: &str) -> String {
    format!("{ROOT}/assets/{}/{name}", *DIGEST)
}

/// The file of a path below `/ui`, if it is one. Files need no authentication.
pub fn asset(path: &str) -> Option<Response> {
    let below = path.strip_prefix(ROOT)?.strip_prefix("/assets/")?;
    let name = below.strip_prefix(DIGEST.as_str())?.strip_prefix('/')?;
    let (_, media_type, content) = ASSETS.into_iter().find(|(known, ..)| *known == name)?;
    let mut response = text_response(StatusCode::OK, media_type, content);
    response.headers_mut().insert(header::CACHE_CONTROL, KEPT);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_address_and_nothing_else_is() {
        for (name, media_type, _) in ASSETS {
            let found = asset(&address(name)).unwrap();
            assert_eq!(found.headers()[header::CONTENT_TYPE], media_type);
        }
        for path in [
            "/ui/assets/page.css",
            "/ui/assets/0/page.css",
            "/ui/",
            "/assets",
        ] {
            assert!(asset(path).is_none(), "{path}");
        }
    }

    #[test]
    fn all_files_together_leave_room_for_a_first_view_below_100_kb() {
        let bytes: usize = ASSETS.iter().map(|(.., content)| content.len()).sum();
        assert!(bytes < 50_000, "{bytes}");
    }
}
