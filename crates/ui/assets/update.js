// Brings a part of the page to what the server sends now. What is the same in what it sent before and now is left alone, with all that the user did to it.

// The text, without ages: they change by themselves.
export function text(part) {
  const copy = part.cloneNode(true);
  for (const age of copy.querySelectorAll("[data-age]")) age.remove();
  return copy.textContent.replace(/\(\w+ ago\)/g, "");
}

const rows = (part) => [...part.querySelectorAll("[data-key]")];
// The table of a row is a part of its key: one object may be in several.
const key = (row) => `${row.closest("table")?.getAttribute("aria-label")} ${row.dataset.key}`;

function replaceable(node) {
  const identity = [node.dataset?.key, node.id, node.getAttribute?.("href")];
  return [node.nodeName, ...identity].join(" ");
}

function attributes(live, old, next) {
  for (const { name } of old.attributes) if (!next.hasAttribute(name)) live.removeAttribute(name);
  for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) live.setAttribute(name, value);
}

function merge(live, old, next) {
  if (old.isEqualNode(next)) return;
  if (live.nodeType !== Node.ELEMENT_NODE) {
    live.data = next.data;
    return;
  }
  attributes(live, old, next);
  const [now, was, will] = [live, old, next].map((node) => [...node.childNodes]);
  const copies = (nodes) => nodes.map((node) => document.importNode(node, true));
  // A script has changed the children.
  if (now.length !== was.length) return live.replaceChildren(...copies(will));
  const shorter = Math.min(was.length, will.length);
  let start = 0;
  while (start < shorter && was[start].isEqualNode(will[start])) start++;
  let end = 0;
  while (end < shorter - start && was.at(-1 - end).isEqualNode(will.at(-1 - end))) end++;
  const isSame = was.length === will.length;
  const place = now[now.length - end] ?? null;
  if (isSame && will.every((node, at) => replaceable(node) === replaceable(was[at]))) {
    for (let at = start; at < was.length - end; at++) merge(now[at], was[at], will[at]);
    return;
  }
  for (const node of now.slice(start, now.length - end)) node.remove();
  for (const node of copies(will.slice(start, will.length - end))) live.insertBefore(node, place);
}

// Something that can be found again in another copy of the part: by its id, or by what it is, where, and as which one of that kind.
function sameAs(element, part) {
  if (element.id) return () => document.getElementById(element.id);
  const name = (other) => [
    other.nodeName,
    other.closest("[data-key]")?.dataset.key,
    other.closest("section[id], nav, svg, [role=table]")?.id,
    other.getAttribute("href") ?? (other.matches("input, button") ? "" : other.textContent),
  ].join(" ");
  const wanted = name(element);
  const all = () => [...part.querySelectorAll(element.nodeName)].filter((other) => name(other) === wanted);
  const at = all().indexOf(element);
  return () => all().at(at) ?? all()[0];
}

// `details` by the texts of their summaries, from the outermost on; counts at their start do not matter.
function folds(part) {
  const found = new Map();
  for (const element of part.querySelectorAll("details")) {
    let name = element.closest("section")?.querySelector("h2, h3")?.textContent ?? "";
    for (let outer = element; outer; outer = outer.parentElement.closest("details")) {
      name += `\n${outer.firstElementChild.textContent.replace(/^\d+ /, "")}`;
    }
    while (found.has(name)) name += "'";
    found.set(name, element);
  }
  return found;
}

function kept(live) {
  const open = new Map([...folds(live)].map(([name, element]) => [name, element.open]));
  const inputs = [...live.querySelectorAll("input")].map((input) => [sameAs(input, live), input, input.value]);
  const scrolled = [...live.querySelectorAll(".scroll, pre, .yaml")].map((box) => [box.scrollLeft, box.scrollTop]);
  const focused = live.contains(document.activeElement) && document.activeElement !== live ? document.activeElement : null;
  const find = focused && sameAs(focused, live);
  const selection = focused?.matches("input") ? [focused.selectionStart, focused.selectionEnd] : null;
  return () => {
    for (const [name, element] of folds(live)) if (open.has(name) && element.open !== open.get(name)) element.open = open.get(name);
    for (const [again, input, value] of inputs) {
      const found = again();
      if (found && found !== input) found.value = value;
    }
    live.querySelectorAll(".scroll, pre, .yaml").forEach((box, at) => {
      if (scrolled[at]) [box.scrollLeft, box.scrollTop] = scrolled[at];
    });
    if (!focused || document.activeElement === focused) return;
    const found = find() ?? live;
    found.focus({ preventScroll: true });
    if (selection && found.matches("input")) found.setSelectionRange(...selection);
  };
}

function flash(live, old, next) {
  const before = new Map(rows(old).map((row) => [key(row), text(row)]));
  const changed = new Set(rows(next).filter((row) => before.get(key(row)) !== text(row)).map(key));
  const flashing = rows(live).filter((row) => changed.has(key(row)));
  for (const row of flashing) row.classList.remove("changed");
  // Styles are computed in between, so that the animation starts again.
  live.getBoundingClientRect();
  for (const row of flashing) row.classList.add("changed");
}

// `live` becomes what `next` is; `old` is what the server sent before.
export function update(live, old, next) {
  if (old.isEqualNode(next)) return;
  const restore = kept(live);
  merge(live, old, next);
  restore();
  flash(live, old, next);
}
