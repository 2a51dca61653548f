//! A headless Chromium for tests of pages.
//!
//! A test acts as a user does, with pointer and keyboard, and sees what a user, an auditor and the
//! page's author see: texts, cookies, the console, requests and violations of accessibility rules.
//! Methods that name an element by a CSS selector wait until it is there.

mod accessibility;
mod driver;
pub mod keys;
mod network;
mod options;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub use self::{
    accessibility::Violation,
    network::PageRequest,
    options::{BrowserOptions, ColorScheme},
};
use self::{driver::Driver, network::NetworkLog};
use crate::poll::eventually;

/// How long a page may take to show what a test waits for, on a machine that compiles meanwhile.
const DEADLINE: Duration = Duration::from_secs(30);

/// Visible elements of a selector, `arguments[0]`, with a text, `arguments[1]`, in them.
const FIND: &str = "return [...document.querySelectorAll(arguments[0])]
    .find(element => element.checkVisibility() && (element.innerText ?? '').includes(arguments[1])) ?? null;";

/// Scrolls to an element as a user does, who sees what a header that stays covers.
const SCROLL: &str = "arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' });";

/// What a wait that fails reports of the page.
const STATE: &str = "return location.href + ': ' + document.body.innerText.slice(0, 2000);";

/// A cookie of the shown page.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The path below which it is sent.
    pub path: String,
    /// The host that it is sent to, with a dot in front if also to hosts below.
    pub domain: String,
    /// Whether scripts cannot read it.
    pub http_only: bool,
    /// Whether it is sent over TLS only.
    pub secure: bool,
    /// `Strict`, `Lax` or `None`.
    pub same_site: Option<String>,
    /// When it ends, in seconds since 1970; none for the end of the session.
    pub expiry: Option<u64>,
}

/// A message on the browser's console: of a script, of a failed request, of a violated policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleMessage {
    /// `SEVERE`, `WARNING`, `INFO` or `DEBUG`.
    pub level: String,
    /// `security` for a violated content security policy, `network`, `javascript`, `console-api`,
    /// ….
    pub source: String,
    /// Where, and what.
    pub text: String,
}

/// An element of the page, by WebDriver's id.
#[derive(Deserialize, Serialize)]
struct Element {
    #[serde(rename = "element-6066-11e4-a52e-4f735466cecf")]
    id: String,
}

/// A running browser with one page. It is killed when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Driver,
    options: BrowserOptions,
    console: Mutex<Vec<ConsoleMessage>>,
    network: Mutex<NetworkLog>,
}

impl Browser {
    /// Starts a browser with an empty profile; installs Chromium if it is missing.
    pub async fn open(options: BrowserOptions) -> Result<Self> {
        let browser = Self {
            driver: Driver::start(options.accept_any_certificate).await?,
            options,
            console: Mutex::default(),
            network: Mutex::default(),
        };
        browser.resize(options.width, options.height).await?;
        let color_scheme = match options.color_scheme {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": color_scheme }]);
        let media = json!({ "features": features });
        browser
            .driver
            .devtools("Emulation.setEmulatedMedia", media)
            .await?;
        browser.allow_scripts(options.javascript).await?;
        browser.forget().await?;
        Ok(browser)
    }

    /// Sets the size of the page in CSS pixels. Windows have a minimum width, pages have none.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.driver
            .devtools("Emulation.setDeviceMetricsOverride", size)
            .await
            .map(drop)
    }

    /// Opens a page, and returns when it and its resources are loaded.
    pub async fn goto(&self, url: &str) -> Result<()> {
        self.driver.post("url", &json!({ "url": url })).await
    }

    /// Loads the page again.
    pub async fn reload(&self) -> Result<()> {
        self.driver.post("refresh", &json!({})).await
    }

    /// Goes to the page before this one in the history.
    pub async fn back(&self) -> Result<()> {
        self.driver.post("back", &json!({})).await
    }

    /// The page's URL.
    pub async fn url(&self) -> Result<String> {
        self.driver.get("url").await
    }

    /// The page's title.
    pub async fn title(&self) -> Result<String> {
        self.driver.get("title").await
    }

    /// Runs the body of a JavaScript function in the page, also if pages may run no scripts.
    pub async fn evaluate<T: DeserializeOwned>(
        &self,
        script: &str,
        arguments: &Value,
    ) -> Result<T> {
        self.driver.execute(script, arguments).await
    }

    /// Waits until an element of the selector is visible.
    pub async fn wait_for(&self, selector: &str) -> Result<()> {
        self.wait_for_text(selector, "").await
    }

    /// Waits until a visible element of the selector has the text in it.
    pub async fn wait_for_text(&self, selector: &str, text: &str) -> Result<()> {
        self.find(selector, text).await.map(drop)
    }

    /// Waits until no visible element of the selector has the text in it.
    pub async fn wait_until_gone(&self, selector: &str, text: &str) -> Result<()> {
        eventually(
            &format!("`{selector}` without {text:?}"),
            DEADLINE,
            || async {
                let found = self.search(selector, text).await?;
                ensure!(found.is_none(), "the page is {}", self.state().await?);
                anyhow::Ok(())
            },
        )
        .await
    }

    /// Waits until the page's URL contains `part`.
    pub async fn wait_for_url(&self, part: &str) -> Result<()> {
        eventually(&format!("a URL with {part:?}"), DEADLINE, || async {
            let url = self.url().await?;
            ensure!(url.contains(part), "the page is {}", self.state().await?);
            Ok(())
        })
        .await
    }

    /// The texts of all elements of the selector, as they are shown, in the page's order.
    pub async fn texts(&self, selector: &str) -> Result<Vec<String>> {
        let script = "return [...document.querySelectorAll(arguments[0])].map(element => element.innerText);";
        self.evaluate(script, &json!([selector])).await
    }

    /// The text of the first visible element of the selector.
    pub async fn text(&self, selector: &str) -> Result<String> {
        let element = self.find(selector, "").await?;
        self.driver
            .get(&format!("element/{}/text", element.id))
            .await
    }

    /// The value of an attribute of the first visible element of the selector.
    pub async fn attribute(&self, selector: &str, name: &str) -> Result<Option<String>> {
        let element = self.find(selector, "").await?;
        let path = format!("element/{}/attribute/{name}", element.id);
        self.driver.get(&path).await
    }

    /// Clicks on the first visible element of the selector, in its center.
    pub async fn click(&self, selector: &str) -> Result<()> {
        self.click_text(selector, "").await
    }

    /// Clicks on the first visible element of the selector with the text in it.
    pub async fn click_text(&self, selector: &str, text: &str) -> Result<()> {
        // An element may be replaced or covered between the search and the click.
        eventually(
            &format!("a click on `{selector}` with {text:?}"),
            DEADLINE,
            || async {
                let element = self.find_now(selector, text).await?;
                let () = self.evaluate(SCROLL, &json!([element])).await?;
                let path = format!("element/{}/click", element.id);
                self.driver.post::<()>(&path, &json!({})).await
            },
        )
        .await
    }

    /// Presses the keys of a text one after the other; the focused element gets them.
    pub async fn type_text(&self, text: &str) -> Result<()> {
        let keys = text.chars().flat_map(|key| [down(key), up(key)]).collect();
        self.act(keys).await
    }

    /// Presses one key: a character or one of [`keys`].
    pub async fn press(&self, key: char) -> Result<()> {
        self.act(vec![down(key), up(key)]).await
    }

    /// Presses a key while [`keys::SHIFT`] or [`keys::CONTROL`] is held.
    pub async fn press_with(&self, modifier: char, key: char) -> Result<()> {
        self.act(vec![down(modifier), down(key), up(key), up(modifier)])
            .await
    }

    /// The start tag of the focused element, `<body>` if there is none.
    pub async fn focused(&self) -> Result<String> {
        let script =
            r"return document.activeElement.cloneNode(false).outerHTML.replace(/<\/[^<]*>$/, '');";
        self.evaluate(script, &json!([])).await
    }

    /// By how many CSS pixels the page is wider than its visible part.
    pub async fn overflow(&self) -> Result<u32> {
        let script =
            "const page = document.documentElement; return page.scrollWidth - page.clientWidth;";
        self.evaluate(script, &json!([])).await
    }

    /// The cookies that are sent to the shown page.
    pub async fn cookies(&self) -> Result<Vec<Cookie>> {
        self.driver.get("cookie").await
    }

    /// Replaces the value of a cookie of the shown page, such as that of its session.
    pub async fn set_cookie(&self, cookie: &Cookie, value: &str) -> Result<()> {
        let new = json!({
            "name": cookie.name, "value": value, "path": cookie.path, "domain": cookie.domain,
            "httpOnly": cookie.http_only, "secure": cookie.secure,
            "sameSite": cookie.same_site.as_deref().unwrap_or("Lax"),
        });
        self.driver.post("cookie", &json!({ "cookie": new })).await
    }

    /// Removes a cookie of the shown page.
    pub async fn delete_cookie(&self, name: &str) -> Result<()> {
        self.driver.delete(&format!("cookie/{name}")).await
    }

    /// All messages on the console since the browser was opened or [`forget`](Self::forget) was
    /// called.
    pub async fn console(&self) -> Result<Vec<ConsoleMessage>> {
        let entries = self.driver.log("browser").await?;
        let mut console = self.console.lock();
        console.extend(entries.into_iter().map(|entry| ConsoleMessage {
            level: entry.level,
            source: entry.source,
            text: entry.message,
        }));
        Ok(console.clone())
    }

    /// All requests of pages since the browser was opened or [`forget`](Self::forget) was called.
    pub async fn requests(&self) -> Result<Vec<PageRequest>> {
        let entries = self.driver.log("performance").await?;
        let mut network = self.network.lock();
        for entry in entries {
            network.add(&entry.message)?;
        }
        Ok(network.requests())
    }

    /// Forgets the messages and requests so far.
    pub async fn forget(&self) -> Result<()> {
        self.console().await?;
        self.requests().await?;
        self.console.lock().clear();
        self.network.lock().clear();
        Ok(())
    }

    /// Writes a picture of the whole page, a PNG file.
    pub async fn screenshot(&self, path: &Path) -> Result<()> {
        self.picture(path, true).await
    }

    /// Writes a picture of the visible part of the page, a PNG file.
    pub async fn screenshot_of_window(&self, path: &Path) -> Result<()> {
        self.picture(path, false).await
    }

    /// The rules of WCAG 2.0, 2.1 and 2.2, levels A and AA, that the page breaks, as far as
    /// axe-core finds out.
    pub async fn accessibility_violations(&self) -> Result<Vec<Violation>> {
        self.allow_scripts(true).await?;
        let violations = accessibility::violations(&self.driver).await;
        self.allow_scripts(self.options.javascript).await?;
        violations
    }

    async fn picture(&self, path: &Path, is_whole: bool) -> Result<()> {
        let parameters = json!({ "format": "png", "captureBeyondViewport": is_whole });
        let answer = self
            .driver
            .devtools("Page.captureScreenshot", parameters)
            .await?;
        let data = answer["data"].as_str().context("a picture without data")?;
        let png = BASE64_STANDARD.decode(data).context("decoding a picture")?;
        fs::write(path, png).with_context(|| format!("writing {}", path.display()))
    }

    async fn allow_scripts(&self, allowed: bool) -> Result<()> {
        let parameters = json!({ "value": !allowed });
        self.driver
            .devtools("Emulation.setScriptExecutionDisabled", parameters)
            .await
            .map(drop)
    }

    async fn find(&self, selector: &str, text: &str) -> Result<Element> {
        let what = format!("a visible `{selector}` with {text:?}");
        eventually(&what, DEADLINE, || self.find_now(selector, text)).await
    }

    /// Fails with the page's state if there is no such element.
    async fn find_now(&self, selector: &str, text: &str) -> Result<Element> {
        match self.search(selector, text).await? {
            Some(element) => Ok(element),
            None => bail!("the page is {}", self.state().await?),
        }
    }

    async fn search(&self, selector: &str, text: &str) -> Result<Option<Element>> {
        self.evaluate(FIND, &json!([selector, text])).await
    }

    async fn state(&self) -> Result<String> {
        self.evaluate(STATE, &json!([])).await
    }

    async fn act(&self, keys: Vec<Value>) -> Result<()> {
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": keys });
        let body = json!({ "actions": [keyboard] });
        self.driver.post("actions", &body).await
    }
}

fn down(key: char) -> Value {
    json!({ "type": "keyDown", "value": key })
}

fn up(key: char) -> Value {
    json!({ "type": "keyUp", "value": key })
}
