// The editor of a SQL page: Ctrl-Enter runs the query, and names of views and columns are suggested while one types. Tab
// stays a way out of the editor. Published sites have it, too.
"use strict";

const query = document.getElementById("query");
const text = document.getElementById("q");
const list = document.getElementById("suggestions");
const MOST_SUGGESTED = 8;
const meanings = new Map(); // name → what it means
const columns = new Map(); // view → its columns
for (const view of document.querySelectorAll("[data-view]")) {
  const rows = [...view.querySelectorAll("tbody tr")];
  columns.set(view.dataset.view, rows.map((row) => row.querySelector("code").textContent));
  for (const row of rows) {
    const [meaning, unit, empty] = [...row.querySelectorAll("td")].map((cell) => cell.textContent);
    const name = row.querySelector("code").textContent;
    if (!meanings.has(name)) meanings.set(name, `${meaning} (${unit}; NULL: ${empty})`);
  }
  meanings.set(view.dataset.view, view.querySelector("summary .note").textContent);
}
let chosen = -1;

// The part of a name before the cursor, and the view that it is a column of where one is named: view.part
function typed() {
  const before = text.value.slice(0, text.selectionStart);
  const found = /(?:([A-Za-z_]\w*)\.)?([A-Za-z_]\w*)?$/.exec(before);
  return { view: found[1], part: found[2] ?? "" };
}

function candidates() {
  const { view, part } = typed();
  if (!part && !view) return [];
  const named = [...columns.keys()].filter((name) => new RegExp(`\\b${name}\\b`).test(text.value));
  const near = view && columns.has(view) ? columns.get(view) : [...columns.keys(), ...named.flatMap((name) => columns.get(name))];
  const all = named.length || view ? near : [...near, ...meanings.keys()];
  const lower = part.toLowerCase();
  return [...new Set(all)].filter((name) => name !== part && name.toLowerCase().startsWith(lower)).slice(0, MOST_SUGGESTED);
}

function close() {
  list.hidden = true;
  chosen = -1;
  text.removeAttribute("aria-activedescendant");
}

function suggest() {
  const names = candidates();
  if (!names.length) return close();
  list.replaceChildren(...names.map((name, place) => {
    const item = document.createElement("li");
    item.id = `suggestion-${place}`;
    item.setAttribute("role", "option");
    const code = document.createElement("code");
    code.textContent = name;
    const note = document.createElement("span");
    note.className = "note";
    note.textContent = ` ${meanings.get(name) ?? ""}`;
    item.append(code, note);
    item.addEventListener("mousedown", (event) => {
      event.preventDefault();
      complete(name);
    });
    return item;
  }));
  list.hidden = false;
  choose(-1);
}

function choose(place) {
  chosen = place;
  [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === place)));
  if (place < 0) text.removeAttribute("aria-activedescendant");
  else text.setAttribute("aria-activedescendant", `suggestion-${place}`);
}

function complete(name) {
  const { part } = typed();
  const end = text.selectionStart;
  text.setRangeText(name === "at" ? '"at"' : name, end - part.length, end, "end");
  close();
}

text.setAttribute("aria-controls", "suggestions");
text.setAttribute("aria-autocomplete", "list");
text.addEventListener("input", suggest);
text.addEventListener("blur", close);
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    query.requestSubmit();
    return;
  }
  if (list.hidden) return;
  const count = list.children.length;
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    choose(event.key === "ArrowDown" ? (chosen + 1) % count : (Math.max(chosen, 0) + count - 1) % count);
  } else if (event.key === "Enter" && chosen >= 0) {
    event.preventDefault();
    complete(list.children[chosen].querySelector("code").textContent);
  } else if (event.key === "Escape") {
    close();
  }
});
