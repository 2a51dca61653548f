//! The demo's fleet and a `fleetdex run` that serves the page, which all tests of this program
//! share.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::sync::{Arc, Weak};

use anyhow::{Context, Result, ensure};
use e2e::{
    browser::{Browser, BrowserOptions, keys},
    demo::{session::Session, setup},
    fleet::{Fleet, OpenSearchKind, Options, idle},
    objects::Objects,
    operator::{API_PORT, Operator, OperatorOptions},
    scenario::{self, DEADLINE, until},
    test_result::Tested,
};
use reqwest::Url;
use serde_json::{Value, json};
use tokio::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Objects of the demo are found with it, and those that other tests make are not. API servers
/// write Events on their own, such as of Services whose addresses they allocate again after a
/// start.
pub const OF_DEMO: &str = "ns:shop,web,data,batch NOT kind:Event";
/// How many they are.
pub const OBJECTS_OF_DEMO: usize = 87;
/// A pod that fails.
pub const POD: &str = "/clusters/member1/api/v1/namespaces/shop/pods/checkout-0";
/// That pod in two clusters.
pub const DIFFERENCES: &str =
    "/compare/api/v1/namespaces/shop/pods/checkout-0?left=member1&right=member2";
/// A Secret that all clusters have, with other values in each.
pub const SECRET: &str = "api/v1/namespaces/shop/secrets/credentials";

static SHARED: Mutex<Weak<SharedSite>> = Mutex::const_new(Weak::new());
static TURNS: RwLock<()> = RwLock::const_new(());

/// The running servers.
pub struct Site {
    pub operator: Operator,
    pub fleet: Fleet,
    pub session: Session,
}

/// The servers while a test uses them; the next test gets them.
struct SharedSite(Arc<Site>);

impl Drop for SharedSite {
    fn drop(&mut self) {
        idle::keep("site of the page", Arc::clone(&self.0));
    }
}

/// The use of the site by one test.
pub struct Visit {
    site: Arc<SharedSite>,
    _turn: Turn,
}

#[allow(dead_code, reason = "held until the end of the test")]
enum Turn {
    WithOthers(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

impl Visit {
    /// Beside other tests, which see the objects that this one makes.
    pub async fn begin() -> Self {
        Self::with(Turn::WithOthers(TURNS.read().await)).await
    }

    /// While no other test uses the site: for a test that stops servers.
    pub async fn begin_alone() -> Self {
        Self::with(Turn::Alone(TURNS.write().await)).await
    }

    async fn with(turn: Turn) -> Self {
        let mut shared = SHARED.lock().await;
        let site = match shared.upgrade() {
            Some(site) => site,
            None => {
                let site = match idle::take::<_, Arc<Site>>(&"site of the page") {
                    Some(site) => site,
                    None => Arc::new(Site::start().await.unwrap()),
                };
                Arc::new(SharedSite(site))
            }
        };
        *shared = Arc::downgrade(&site);
        Self { site, _turn: turn }
    }

    pub fn site(&self) -> &Site {
        &self.site.0
    }

    /// The address of a view, below `/ui`, for the holder of the token file.
    pub fn address(&self, path: &str) -> String {
        format!("http://{}/ui{path}", self.site().operator.api_address())
    }

    /// The same over TLS, for users of the control plane.
    pub fn secure_address(&self, path: &str) -> String {
        format!("https://{}/ui{path}", self.site().operator.api_address())
    }

    /// A link that signs in once.
    pub async fn link(&self) -> String {
        self.site().operator.page_link().await.unwrap()
    }

    /// A new browser, signed in, with a view.
    pub async fn open(&self, path: &str) -> Browser {
        self.open_with(BrowserOptions::default(), path).await
    }

    pub async fn open_with(&self, options: BrowserOptions, path: &str) -> Browser {
        let browser = Browser::open(options).await.unwrap();
        browser.goto(&self.link().await).await.unwrap();
        browser.goto(&self.address(path)).await.unwrap();
        browser
    }

    /// A new browser with a view over TLS, for which the user enters a token.
    pub async fn open_as(&self, token: &str, path: &str) -> Browser {
        let options = BrowserOptions {
            accept_any_certificate: true,
            ..BrowserOptions::default()
        };
        let browser = Browser::open(options).await.unwrap();
        browser.goto(&self.secure_address(path)).await.unwrap();
        sign_in(&browser, token).await;
        browser
    }

    /// Objects of a member.
    pub fn member(&self, number: usize) -> Objects {
        Objects::of(self.site().fleet.member(number)).unwrap()
    }

    /// Objects of the control plane.
    pub fn hub(&self) -> Objects {
        Objects::of(self.site().fleet.control_plane()).unwrap()
    }

    /// Waits until a search, asked on the command line, finds a number of objects.
    pub async fn until_found(&self, search: &str, count: usize) {
        let arguments = ["search", search, "-o", "name", "--all"];
        until(search, || async {
            let result = self.site().operator.run_command(&arguments).await?;
            ensure!(result.out.lines().count() == count, "{result:?}");
            Ok(())
        })
        .await
        .unwrap();
    }
}

impl Site {
    async fn start() -> Result<Self> {
        let fleet = Fleet::start(Options::of(3, OpenSearchKind::Plain)).await?;
        setup::register(&fleet).await?;
        setup::create_workloads(&fleet).await?;
        let service = format!("--api-service={}/fleetdex", setup::NAMESPACE);
        let port = format!("--api-service-port={API_PORT}");
        let operator = Operator::start(OperatorOptions {
            arguments: [scenario::flags(), vec![service, port]].concat(),
            ..OperatorOptions::of(&fleet)
        })?;
        operator.wait_ready(DEADLINE).await?;
        let session = Session::write(&fleet, &operator)?;
        let site = Self {
            operator,
            fleet,
            session,
        };
        site.index().await?;
        Ok(site)
    }

    /// Applies the registry of the demo, with Events.
    async fn index(&self) -> Result<()> {
        let opensearch = self.fleet.opensearch()?;
        let registry = setup::registry(opensearch.url());
        let with_events = registry.replace(
            "  backendStore:",
            "  - apiVersion: v1\n    kind: Event\n  backendStore:",
        );
        let kubectl = self.fleet.control_plane().kubectl()?;
        kubectl.apply_server_side(&with_events).await?;
        let hub = Objects::of(self.fleet.control_plane())?;
        until("the registry is in sync", || async {
            let path = "apis/search.karmada.io/v1alpha1/resourceregistries/demo";
            let registry = hub.get(path).await?;
            let conditions = registry["status"]["conditions"].as_array();
            let conditions = conditions.context("no conditions")?;
            let is_true = |name: &str| {
                let found = conditions
                    .iter()
                    .find(|condition| condition["type"] == name);
                found.is_some_and(|condition| condition["status"] == "True")
            };
            ensure!(is_true("Ready") && is_true("Synced"), "{conditions:?}");
            Ok(())
        })
        .await?;
        opensearch.client()?.refresh("fleetdex").await
    }
}

/// Enters a token in the view that asks for one.
pub async fn sign_in(browser: &Browser, token: &str) {
    browser.click("#token").await.unwrap();
    browser.type_text(token).await.unwrap();
    browser.press(keys::ENTER).await.unwrap();
    browser.wait_for("form.account").await.unwrap();
}

/// The path of a search, below `/ui`.
pub fn search(text: &str) -> String {
    let url = Url::parse_with_params("http://fleet/", [("q", text)]).unwrap();
    format!("/?{}", url.query().unwrap())
}

/// The addresses of the objects in a table of results, in its order.
pub async fn objects(browser: &Browser) -> Tested<Vec<String>> {
    let script = "return [...document.querySelectorAll('#results th a')].map(link => link.getAttribute('href'));";
    Ok(browser.evaluate(script, &json!([])).await?)
}

/// The titles of the columns of the results.
pub async fn columns(browser: &Browser) -> Tested<Vec<String>> {
    Ok(browser.texts("#results thead th").await?)
}

/// The content of an element, also of one that is folded.
pub async fn content(browser: &Browser, selector: &str) -> String {
    let script = "return document.querySelector(arguments[0]).textContent;";
    browser.evaluate(script, &json!([selector])).await.unwrap()
}

/// The HTML of the whole page.
pub async fn source(browser: &Browser) -> Tested<String> {
    let script = "return document.documentElement.outerHTML;";
    Ok(browser.evaluate(script, &json!([])).await?)
}

/// Marks the page, so that [`is_marked`] tells whether it was loaded again as a whole.
pub async fn mark(browser: &Browser) -> Tested {
    let () = browser
        .evaluate("window.marked = true;", &json!([]))
        .await?;
    Ok(())
}

/// Whether the page is the one that was [marked](mark).
pub async fn is_marked(browser: &Browser) -> Tested<bool> {
    let script = "return window.marked === true;";
    Ok(browser.evaluate(script, &json!([])).await?)
}

/// A pod of one container, which no kubelet runs.
pub fn pod(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
    })
}
