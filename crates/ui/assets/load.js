// Shows what the server renders now, without undoing what the user does.
import { announce } from "./copy.js";
import { text, update } from "./update.js";

const LONGEST = 30000;
// Milliseconds between two announcements.
const QUIET = 10000;
// Answers that say that the view is not there (any more) for this user.
const GONE = [403, 404, 410];

const main = document.getElementById("main");
const notice = document.getElementById("notice");
// What the server sent last, as scripts have not changed it.
let sent = main.cloneNode(true);
let loaded = new Date();
let announced = -QUIET;

function fail(reason) {
  const message = `Not up to date since ${loaded.toLocaleTimeString()}: ${reason}.`;
  if (notice.textContent !== message) notice.textContent = message;
  return "failed";
}

function signIn(page, form) {
  if (!form) {
    fail("the session has ended, so load the page again");
    return "over";
  }
  const isElsewhere = document.activeElement !== document.body && !main.contains(document.activeElement);
  main.replaceChildren(...form.childNodes);
  document.title = page.title;
  notice.textContent = "";
  if (!isElsewhere) document.getElementById("token")?.focus();
  return "over";
}

// Fetches the page, not older than a version. If the server does not know the version any more, it is shown what there is.
async function fetched(version) {
  const address = new URL(location.href);
  if (version) address.searchParams.set("version", version);
  const response = await fetch(address, { headers: { Accept: "text/html" }, signal: AbortSignal.timeout(LONGEST) });
  return version && response.status === 410 ? fetched("") : response;
}

// The outcome: "loaded", "failed", "dropped" because `isOn` is not true any more, or "over" because the session is.
export async function load(isOn, after, version) {
  let response;
  let page;
  try {
    response = await fetched(version);
    page = new DOMParser().parseFromString(await response.text(), "text/html");
  } catch {
    return isOn() ? fail("the server cannot be reached") : "dropped";
  }
  if (!isOn()) return "dropped";
  const next = page.getElementById("main");
  if (response.status === 401) return signIn(page, next);
  if (!next || !response.ok && !GONE.includes(response.status)) return fail(`the server answers ${response.status}`);
  loaded = new Date();
  notice.textContent = "";
  const hasChanged = text(sent) !== text(next);
  update(main, sent, next);
  sent = next;
  if (document.title !== page.title) document.title = page.title;
  after();
  if (hasChanged && performance.now() - announced > QUIET) {
    announced = performance.now();
    announce("The page was updated.");
  }
  return "loaded";
}
