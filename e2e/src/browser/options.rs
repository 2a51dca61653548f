//! How a browser of a test is started.

/// How a browser shows pages.
#[derive(Debug, Clone, Copy)]
pub struct BrowserOptions {
    /// Width of the page in CSS pixels.
    pub width: u32,
    /// Height of the visible part of the page in CSS pixels.
    pub height: u32,
    /// What the media feature `prefers-color-scheme` says.
    pub color_scheme: ColorScheme,
    /// Whether pages may run scripts.
    pub javascript: bool,
    /// Accepts certificates of unknown authorities.
    pub accept_any_certificate: bool,
}

impl Default for BrowserOptions {
    fn default() -> Self {
        Self {
            width: 1280,
            height: 800,
            color_scheme: ColorScheme::Light,
            javascript: true,
            accept_any_certificate: false,
        }
    }
}

/// The colors that a user prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorScheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}
