// Loads the parts of a page again when the server says that they have changed.
import { announce } from "./copy.js";

const PAUSE = 400;
const AGAIN = 15000;

// The parts as the server sent them; scripts have changed them since.
const sent = new Map([...document.querySelectorAll("[data-refresh]")].map((part) => [part.id, part.innerHTML]));

// Loads the page, not older than a version.
async function load(version) {
  const address = new URL(location.href);
  if (version) address.searchParams.set("version", version);
  const response = await fetch(address, { headers: { Accept: "text/html" } });
  // Of a version that is too old, all is shown that there is.
  return version && response.status === 410 ? load("") : response;
}

async function refresh(version, after) {
  const response = await load(version);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  // The session has ended, or the object is gone.
  if (response.status === 401 || response.status === 404) {
    replace(page);
    return false;
  }
  // Other errors pass: what is shown stays until the next attempt.
  if (!response.ok) return null;
  const focused = document.activeElement?.closest("[data-refresh] a")?.getAttribute("href");
  const open = new Set([...document.querySelectorAll(".yaml details:not([open]) > summary")].map((line) => line.textContent));
  let changed = false;
  for (const part of document.querySelectorAll("[data-refresh]")) {
    const next = page.getElementById(part.id);
    if (!next || next.innerHTML === sent.get(part.id)) continue;
    sent.set(part.id, next.innerHTML);
    const before = new Set([...part.querySelectorAll("[data-row]")].map((row) => row.textContent));
    part.replaceChildren(...next.childNodes);
    for (const row of part.querySelectorAll("[data-row]")) if (!before.has(row.textContent)) row.classList.add("changed");
    changed ||= part.id !== "facts";
  }
  for (const line of document.querySelectorAll(".yaml summary")) if (open.has(line.textContent)) line.parentElement.open = false;
  for (const name of [".facets", "h1"]) {
    const [now, next] = [document.querySelector(name), page.querySelector(name)];
    if (now && next && now.innerHTML !== next.innerHTML) now.replaceChildren(...next.childNodes);
  }
  if (focused) document.querySelector(`[data-refresh] a[href="${CSS.escape(focused)}"]`)?.focus();
  if (changed) announce("The page was updated.");
  after();
  return true;
}

function replace(page) {
  document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes);
  document.title = page.title;
  document.getElementById("token")?.focus();
}

export function live(after) {
  const { events, every } = document.body.dataset;
  if (!events && !every) return;
  let source = null;
  let timer = 0;
  let due = 0;
  let isLoading = false;
  let version = "";

  // Changes that follow one another do not put off what the first one began, and do not load the page twice at a time.
  const soon = (pause = PAUSE) => {
    const at = Date.now() + pause;
    if (timer && due <= at) return;
    clearTimeout(timer);
    due = at;
    timer = setTimeout(async () => {
      timer = 0;
      if (isLoading) { soon(); return; }
      isLoading = true;
      const done = await refresh(version, after).catch(() => null);
      isLoading = false;
      if (done === false) stop();
      if (done === null && source) soon(AGAIN);
    }, pause);
  };
  const stop = () => {
    source?.close();
    source = null;
    clearTimeout(timer);
    timer = 0;
  };
  const start = () => {
    if (source || document.hidden) return;
    if (every) {
      const repeated = setInterval(() => soon(), Number(every) * 1000);
      source = { close: () => clearInterval(repeated) };
      return;
    }
    source = new EventSource(events);
    // What changed before the events began, or between two of them, is in the page that `begin` loads.
    for (const name of ["begin", "change", "expired"]) {
      source.addEventListener(name, (event) => {
        version = event.data;
        soon();
      });
    }
    source.addEventListener("error", () => {
      // Refused with a status: the session may have ended, or too many watches are open.
      if (source?.readyState === EventSource.CLOSED) {
        stop();
        soon();
        setTimeout(start, AGAIN);
      }
    });
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else { soon(); start(); }
  });
  start();
}
