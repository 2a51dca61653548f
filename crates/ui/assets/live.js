// Loads a view again when the server says that it has changed.
import { load } from "./load.js";

// Milliseconds: at least between two loads, between tries after a failure and of the events, and until events count as calm.
const PAUSE = 400;
const RETRY = 2000;
const LONGEST = 60000;
const CALM = 10000;

const now = () => performance.now();
const waiting = (failures) => Math.min(RETRY * 2 ** failures, LONGEST);

// At most one load at a time. `isOn` says whether the page may load now.
function loader(isOn, after, over) {
  let dirty = false;
  // The version of the last event: what is loaded shows at least that.
  let version = "";
  let running = false;
  let timer = 0;
  let failures = 0;
  let earliest = 0;

  const run = async () => {
    timer = 0;
    if (!isOn()) return;
    const began = now();
    dirty = false;
    running = true;
    const outcome = await load(isOn, after, version).catch((error) => { console.error(error); return "failed"; });
    running = false;
    if (outcome === "over") return over();
    failures = outcome === "failed" ? failures + 1 : 0;
    dirty ||= outcome !== "loaded";
    earliest = now() + (failures ? waiting(failures - 1) : now() - began);
    next();
  };
  const next = () => {
    if (dirty && !running && !timer && isOn()) timer = setTimeout(run, Math.max(PAUSE, earliest - now()));
  };
  const stop = () => { clearTimeout(timer); timer = 0; };
  const soon = (event) => {
    version = event?.data || version;
    dirty = true;
    next();
  };
  return { soon, stop };
}

export function live(after) {
  const { events, every } = document.body.dataset;
  if (!events && !every) return;
  const button = document.querySelector("[data-pause]");
  let paused = false;
  let ended = false;
  let source = null;
  let timer = 0;
  let failures = 0;
  let hasBegun = false;

  const isOn = () => !ended && !paused && !document.hidden;
  const close = () => {
    source?.close();
    source = null;
    clearTimeout(timer);
  };
  const stop = () => { close(); views.stop(); };
  const views = loader(isOn, after, () => {
    ended = true;
    if (button) button.hidden = true;
    stop();
  });

  const open = () => {
    if (source || !isOn()) return;
    clearTimeout(timer);
    if (every) {
      const repeated = setInterval(() => views.soon(), Number(every) * 1000);
      source = { close: () => clearInterval(repeated) };
      return;
    }
    const opened = now();
    let began = false;
    const again = () => {
      close();
      // Why the events are refused, the view says: the session may have ended. Otherwise `begin` loads what was missed.
      if (!began) views.soon();
      failures = began && now() - opened > CALM ? 0 : failures + 1;
      timer = setTimeout(open, waiting(Math.max(failures - 1, 0)));
    };
    source = new EventSource(events);
    source.addEventListener("begin", (event) => {
      // A page that has just been loaded has everything until now.
      if (hasBegun || now() > RETRY) views.soon(event);
      began = hasBegun = true;
    });
    source.addEventListener("change", views.soon);
    source.addEventListener("expired", again);
    source.addEventListener("error", again);
  };
  const follow = () => {
    if (!isOn()) return stop();
    views.soon();
    open();
  };
  document.addEventListener("visibilitychange", follow);
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      button.textContent = paused ? "Paused" : "Live";
      button.title = paused ? "Resume the updates of this page" : "Pause the updates of this page";
      follow();
    });
  }
  open();
}
