// Finds text in the YAML of an object.
let found = [];
let at = -1;

function find(unfold) {
  const wanted = document.querySelector("[data-yaml-search] input").value.toLowerCase();
  const lines = [...document.querySelectorAll("#yaml .line")];
  found = wanted ? lines.filter((line) => line.textContent.toLowerCase().includes(wanted)) : [];
  for (const line of lines) line.classList.remove("found");
  for (const line of found) {
    line.classList.add("found");
    for (let part = line.parentElement.closest("details"); unfold && part; part = part.parentElement.closest("details")) part.open = true;
  }
  const [count, message] = [document.querySelector("[data-yaml-found]"), wanted ? `${found.length} lines` : ""];
  if (count.textContent !== message) count.textContent = message;
}

export function searchYaml() {
  const box = document.querySelector("[data-yaml-search]");
  if (!box || !document.getElementById("yaml")) return;
  if (box.hidden) {
    box.hidden = false;
    const input = box.querySelector("input");
    input.addEventListener("input", () => { at = -1; find(true); });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !found.length) return;
      event.preventDefault();
      at = (Math.max(at, event.shiftKey ? 0 : -1) + (event.shiftKey ? -1 : 1) + found.length) % found.length;
      found[at].scrollIntoView({ block: "center" });
    });
  }
  // After an update, what the user has folded stays folded.
  find(false);
}
