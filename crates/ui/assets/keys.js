// Keys: `?` lists them.
const SETTING = "fleetdex.single-keys";
const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.querySelector("a"));

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1);
  const link = all[next].querySelector("a");
  link.focus();
  all[next].scrollIntoView({ block: "nearest" });
}

// Browsers may refuse to store anything: then the choice is that of this page.
function setting(box) {
  try {
    box.checked = localStorage.getItem(SETTING) !== "off";
  } catch { /* it stays on */ }
  box.addEventListener("change", () => {
    try {
      localStorage.setItem(SETTING, box.checked ? "on" : "off");
    } catch { /* it is forgotten with the page */ }
  });
}

export function keys() {
  const dialog = document.getElementById("keys");
  const search = document.getElementById("q");
  const button = document.querySelector("[data-keys]");
  const single = document.querySelector("[data-single-keys]");
  if (single) setting(single);
  if (button && dialog) {
    button.hidden = false;
    button.addEventListener("click", () => dialog.showModal());
  }
  const actions = {
    "/": () => { search?.focus(); search?.select(); },
    "j": () => move(1),
    "k": () => move(-1),
    "f": () => { location.href = "/ui/fleet"; },
    "b": () => history.back(),
    "y": () => document.querySelector("[data-copy-from]")?.click(),
    "?": () => dialog?.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog?.open) return;
    const target = event.target;
    if (target.matches("input, textarea, select")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const action = actions[event.key];
    if (!action || !single?.checked) return;
    event.preventDefault();
    action();
  });
}
