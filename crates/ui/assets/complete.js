// Offers values while a search is typed: the pattern "combobox with a list" of the ARIA guide.
const PAUSE = 120;

const bytes = (text) => new TextEncoder().encode(text);
const text = (array) => new TextDecoder().decode(array);

export function complete() {
  const input = document.getElementById("q");
  if (!input) return;
  const list = document.createElement("ul");
  list.id = "choices";
  list.className = "choices";
  list.role = "listbox";
  list.ariaLabel = "Values that fit here";
  list.hidden = true;
  const note = document.createElement("p");
  note.className = "problem";
  note.role = "status";
  input.after(list, note);
  input.role = "combobox";
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.setAttribute("aria-expanded", "false");

  let answer = null;
  let selected = -1;
  let timer = 0;
  let request = null;
  // Whether the text has changed since the answer, and how far the arrow keys have moved since then.
  let isStale = false;
  let steps = 0;

  const close = () => {
    clearTimeout(timer);
    request?.abort();
    answer = null;
    isStale = false;
    selected = -1;
    note.textContent = "";
    list.hidden = true;
    list.replaceChildren();
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const select = (position) => {
    const items = [...list.querySelectorAll("[role=option]")];
    if (!items.length) return;
    selected = (position + items.length) % items.length;
    items.forEach((item, at) => item.setAttribute("aria-selected", String(at === selected)));
    input.setAttribute("aria-activedescendant", items[selected].id);
    items[selected].scrollIntoView({ block: "nearest" });
  };

  const choose = (position) => {
    // The positions in the answer are those of the text that it was asked for.
    if (input.value !== answer.asked) return ask();
    const item = answer.items[position];
    const whole = bytes(input.value);
    const before = text(whole.slice(0, answer.replace.start));
    const after = text(whole.slice(answer.replace.end));
    const inserted = item.text + (item.finished && !after.startsWith(" ") ? " " : "");
    input.value = before + inserted + after;
    const at = (before + inserted).length;
    input.setSelectionRange(at, at);
    close();
    if (!item.finished) ask();
  };

  const show = () => {
    list.replaceChildren();
    answer.items.forEach((item, position) => {
      const option = document.createElement("li");
      option.role = "option";
      option.id = `choice-${position}`;
      option.setAttribute("aria-selected", "false");
      const [name, detail] = [document.createElement("span"), document.createElement("span")];
      name.className = "text";
      name.textContent = item.text;
      detail.className = "detail";
      detail.textContent = item.detail;
      option.append(name, detail);
      option.addEventListener("mousedown", (event) => {
        event.preventDefault();
        choose(position);
      });
      list.append(option);
    });
    list.hidden = !answer.items.length;
    note.textContent = list.hidden ? answer.error?.message ?? "" : "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    isStale = false;
    if (steps) select(steps > 0 ? steps - 1 : steps);
  };

  const ask = () => {
    isStale = true;
    steps = 0;
    selected = -1;
    input.removeAttribute("aria-activedescendant");
    list.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    clearTimeout(timer);
    request?.abort();
    timer = setTimeout(async () => {
      request = new AbortController();
      const [asked, position] = [input.value, input.selectionStart];
      const isAsked = () => document.activeElement === input && input.value === asked && input.selectionStart === position;
      const question = new URLSearchParams({ q: asked, cursor: bytes(asked.slice(0, position)).length });
      try {
        const response = await fetch(`/ui/complete?${question}`, { signal: request.signal });
        const completions = response.ok ? await response.json() : null;
        if (!isAsked()) return;
        if (!completions) return close();
        answer = { ...completions, asked };
        show();
      } catch (error) {
        if (error.name !== "AbortError") close();
      }
    }, PAUSE);
  };

  input.addEventListener("input", ask);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    const isOpen = !list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (isStale) steps += step;
      else if (!isOpen) ask();
      else if (selected < 0) select(step > 0 ? 0 : -1);
      else select(selected + step);
    } else if (isStale && steps && event.key === "Enter") {
      event.preventDefault();
    } else if (isOpen && selected >= 0 && (event.key === "Enter" || event.key === "Tab")) {
      event.preventDefault();
      choose(selected);
    } else if (event.key === "Escape" && (isOpen || note.textContent)) {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  });
}
