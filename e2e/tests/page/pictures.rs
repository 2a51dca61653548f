//! Pictures of the views: in `target/page`, and with `FLEETDEX_WRITE_IMAGES` in `docs/images`.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{env, fs, path::Path};

use e2e::{
    fleet::target_folder,
    pictures::{
        DARK_PICTURE, DIFFERENCES_PICTURE, FLEET_PICTURE, OBJECT_PICTURE, PHONE_PICTURE,
        SEARCH_PICTURE,
    },
    test_result::Tested,
};

use crate::site::Visit;

/// The documentation stays quick to load.
const MAX_BYTES: u64 = 150_000;

#[tokio::test]
async fn pictures_of_the_views_are_written() -> Tested {
    let visit = Visit::begin().await;
    let folder = target_folder().unwrap().join("page");
    fs::create_dir_all(&folder)?;
    let of_documentation = [
        SEARCH_PICTURE,
        OBJECT_PICTURE,
        DIFFERENCES_PICTURE,
        FLEET_PICTURE,
        PHONE_PICTURE,
    ];
    for picture in of_documentation.into_iter().chain([DARK_PICTURE]) {
        picture.write(&visit.site().operator, &folder).await?;
        let file = folder.join(format!("{}.png", picture.name));
        let bytes = fs::metadata(&file).unwrap().len();
        assert!(
            (1_000..MAX_BYTES).contains(&bytes),
            "{}: {bytes}",
            picture.name
        );
    }
    if env::var_os("FLEETDEX_WRITE_IMAGES").is_none() {
        return Ok(());
    }
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/images");
    fs::create_dir_all(&images)?;
    for picture in of_documentation {
        let name = format!("{}.png", picture.name);
        fs::copy(folder.join(&name), images.join(&name)).unwrap();
    }
    Ok(())
}
