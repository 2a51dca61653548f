//! Keys without a character, in the code points of [WebDriver].
//!
//! [WebDriver]: https://www.w3.org/TR/webdriver2/#keyboard-actions

/// Deletes the character before the cursor.
pub const BACKSPACE: char = '\u{E003}';
/// To the next element, or with [`SHIFT`] to the one before.
pub const TAB: char = '\u{E004}';
/// Activates links and buttons, and submits forms.
pub const ENTER: char = '\u{E007}';
/// For [`press_with`](super::Browser::press_with).
pub const SHIFT: char = '\u{E008}';
/// For [`press_with`](super::Browser::press_with).
pub const CONTROL: char = '\u{E009}';
/// Closes dialogs.
pub const ESCAPE: char = '\u{E00C}';
/// The last position.
pub const END: char = '\u{E010}';
/// The first position.
pub const HOME: char = '\u{E011}';
/// Down.
pub const DOWN: char = '\u{E015}';
