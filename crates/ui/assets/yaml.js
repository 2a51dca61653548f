// Finds text in the YAML of an object.
export function searchYaml() {
  const box = document.querySelector("[data-yaml-search][hidden]");
  const yaml = document.getElementById("yaml");
  if (!box || !yaml) return;
  box.hidden = false;
  const input = box.querySelector("input");
  const count = document.querySelector("[data-yaml-found]");
  const lines = [...yaml.querySelectorAll(".line")];
  let found = [];
  let at = -1;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    found = wanted ? lines.filter((line) => line.textContent.toLowerCase().includes(wanted)) : [];
    lines.forEach((line) => line.classList.toggle("found", found.includes(line)));
    found.forEach((line) => {
      for (let part = line.parentElement.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    });
    at = -1;
    count.textContent = wanted ? `${found.length} lines` : "";
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !found.length) return;
    event.preventDefault();
    at = (at + (event.shiftKey ? -1 : 1) + found.length) % found.length;
    found[at].scrollIntoView({ block: "center" });
  });
}
