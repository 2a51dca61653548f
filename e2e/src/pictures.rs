//! Pictures of the web page over the demo's fleet.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{
    browser::{Browser, BrowserOptions, ColorScheme},
    operator::Operator,
};

/// A view, and how its picture is taken.
#[derive(Debug, Clone, Copy)]
pub struct Picture {
    /// The name of the file, without its ending.
    pub name: &'static str,
    /// The path of the view, below `/ui`.
    pub path: &'static str,
    /// An element that is there when the view is complete.
    pub shown: &'static str,
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// The colors.
    pub color_scheme: ColorScheme,
}

const WINDOW: (u32, u32) = (1200, 750);
const PHONE: (u32, u32) = (390, 750);
const SEARCH: &str = "/?q=health%3ADegraded";
const ROWS: &str = "[data-row]";

/// What fails, in all clusters.
pub const SEARCH_PICTURE: Picture = light("search", SEARCH, ROWS);
/// A pod that fails, with its relations.
pub const OBJECT_PICTURE: Picture = light(
    "object",
    "/clusters/member1/api/v1/namespaces/shop/pods/checkout-0",
    ".graph",
);
/// The same pod in two clusters.
pub const DIFFERENCES_PICTURE: Picture = light(
    "differences",
    "/compare/api/v1/namespaces/shop/pods/checkout-0?left=member1&right=member2",
    ".differences",
);
/// All clusters.
pub const FLEET_PICTURE: Picture = light("fleet", "/fleet", ROWS);
/// The search on a phone.
pub const PHONE_PICTURE: Picture = Picture {
    size: PHONE,
    ..light("phone", SEARCH, ROWS)
};
/// The pod in dark colors.
pub const DARK_PICTURE: Picture = Picture {
    name: "dark",
    color_scheme: ColorScheme::Dark,
    ..OBJECT_PICTURE
};

const fn light(name: &'static str, path: &'static str, shown: &'static str) -> Picture {
    Picture {
        name,
        path,
        shown,
        size: WINDOW,
        color_scheme: ColorScheme::Light,
    }
}

impl Picture {
    /// Takes the picture of an operator's page, and writes it into a folder as a PNG file.
    pub async fn write(&self, operator: &Operator, folder: &Path) -> Result<()> {
        let (width, height) = self.size;
        let browser = Browser::open(BrowserOptions {
            width,
            height,
            color_scheme: self.color_scheme,
            ..BrowserOptions::default()
        })
        .await?;
        browser.goto(&operator.page_link().await?).await?;
        let view = format!("http://{}/ui{}", operator.api_address(), self.path);
        browser.goto(&view).await?;
        browser.wait_for(self.shown).await?;
        let file = folder.join(format!("{}.png", self.name));
        browser
            .screenshot_of_window(&file)
            .await
            .with_context(|| format!("the picture {}", self.name))
    }
}
