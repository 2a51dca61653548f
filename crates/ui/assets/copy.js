// Buttons that copy.
const labels = new WeakMap();

async function put(button, read) {
  const label = button.firstChild;
  // A second click finds what the first one wrote.
  const shown = labels.get(button) ?? { text: label.textContent, timer: 0 };
  labels.set(button, shown);
  clearTimeout(shown.timer);
  let result = "Copied";
  try {
    await navigator.clipboard.writeText(await read());
  } catch {
    result = "Not copied";
  }
  label.textContent = result;
  announce(result);
  clearTimeout(shown.timer);
  shown.timer = setTimeout(() => { label.textContent = shown.text; }, 2000);
}

async function download(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return response.text();
}

export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

export function copy() {
  // Browsers offer the clipboard to pages over TLS and on this machine only.
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy][hidden], [data-copy-from][hidden]")) {
    button.hidden = false;
    const { copy: id, copyFrom } = button.dataset;
    const read = () => copyFrom ? download(copyFrom) : document.getElementById(id).textContent;
    button.addEventListener("click", () => put(button, read));
  }
}
