// Buttons that copy.
async function put(button, text) {
  const label = button.firstChild;
  const before = label.textContent;
  try {
    await navigator.clipboard.writeText(text);
    label.textContent = "Copied";
  } catch {
    label.textContent = "Not copied";
  }
  announce(label.textContent);
  setTimeout(() => { label.textContent = before; }, 2000);
}

export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

export function copy() {
  // Browsers offer the clipboard to pages over TLS and on this machine only.
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy][hidden]")) {
    button.hidden = false;
    button.addEventListener("click", () => put(button, document.getElementById(button.dataset.copy).textContent));
  }
  for (const button of document.querySelectorAll("[data-copy-from][hidden]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const response = await fetch(button.dataset.copyFrom);
      await put(button, response.ok ? await response.text() : "");
    });
  }
}
