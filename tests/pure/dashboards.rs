//! The saved objects under `dashboards/` are those that `fleetdex dashboards export` prints.
//!
//! `make dashboards` writes them.

use std::{env, fs, path::Path};

use fleetdex_dashboards_commands::exported;

#[test]
fn committed_saved_objects_are_what_export_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/fleetdex.ndjson");
    let expected = exported();
    if env::var_os("FLEETDEX_WRITE_DASHBOARDS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == expected,
        "{} is not what `fleetdex dashboards export` prints; regenerate it with `make dashboards`",
        path.display()
    );
}
