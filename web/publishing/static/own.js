// A visitor's own board: the form's choice, ranked by ranking.js, in the place of the table of all models.
"use strict";

const form = document.getElementById("choose");
const table = document.getElementById("own");
const state = document.getElementById("state");
const [choices, ...columns] = form.dataset.choices.trim().split(/\s+/);
const text = async (address) => {
  const response = await fetch(new URL(address, document.baseURI));
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  return response.text();
};
// The server's rows: names, links and drawings stay what they are.
const known = new Map([...table.tBodies[0].rows].map((row) => [row.dataset.row, row]));
const heads = [...table.tHead.rows[0].cells];
const drawing = heads.length && table.querySelector(".drawn") ? heads[2] : null;
const ALONE = "No rank: one model was chosen";
let rankings;
let last = 0; // of the choices, which only the newest is shown of

// What differs from the form as it was sent: the choice that the address holds.
function asked() {
  const query = new URLSearchParams();
  for (const field of form.elements) {
    if (!field.name) continue;
    if (field.type === "checkbox") continue;
    const values = field.multiple ? [...field.selectedOptions].map((option) => option.value) : [field.value];
    for (const value of values) {
      if (!value || (field.name.startsWith("weight.") && value === field.defaultValue)) continue;
      if (field.name.startsWith("weight.")) query.append("weight", `${field.name.slice(7)}:${value}`);
      else query.append(field.name, value);
    }
  }
  const boxes = [...form.querySelectorAll("[name=column]")];
  if (boxes.some((box) => box.checked !== box.defaultChecked)) {
    for (const box of boxes) if (box.checked) query.append("column", box.value);
  }
  return query;
}

function restore(query) {
  const columns = query.getAll("column");
  for (const field of form.elements) {
    if (field.type === "checkbox") field.checked = columns.length ? columns.includes(field.value) : field.defaultChecked;
    else if (field.multiple) for (const option of field.options) option.selected = query.getAll(field.name).includes(option.value);
    else if (field.name && query.get(field.name)) field.value = query.get(field.name);
  }
  for (const text of query.getAll("weight")) {
    const at = text.lastIndexOf(":"), field = form.elements[`weight.${text.slice(0, at)}`];
    if (field) field.value = text.slice(at + 1);
  }
}

function shown({ unit }, value) {
  if (unit === "fraction") return `${fixed(exactlyRounded(100 * value, 1), 1)}\u202f%`;
  if (unit === "percentage points") return `${fixed(value, 1)} points`;
  return unit === "percent" ? `${fixed(value, 1)}\u202f%` : fixed(value, 3);
}

function cell(name, role, className, ...children) {
  const made = document.createElement(name);
  made.setAttribute("role", role);
  made.className = className;
  made.append(...children);
  return made;
}

// A dash with its reason, as a tooltip and for screen readers.
function nothing(reason) {
  const [made, dash, said] = ["null", "", "unseen"].map((className) => Object.assign(document.createElement("span"), { className }));
  made.title = said.textContent = reason;
  dash.textContent = "–";
  dash.setAttribute("aria-hidden", "true");
  made.append(dash, said);
  return made;
}

function why(row, value) {
  if (row.lacking.length) return `Not asked: ${row.lacking.map((entry) => `${entry.benchmark} (${entry.variants}, ${entry.protocol})`).join(", ")}`;
  return value.unknown ?? (value.estimated ? "Estimated from a part of the questions" : "Undefined here");
}

function labels(found, board) {
  const several = new Set(found.columns.map((name) => board.columns[name].label)).size < found.columns.length;
  return Object.fromEntries(
    found.columns.map((name) => [name, board.columns[name].label + (several ? ` (${name.slice(name.indexOf("@") + 1)})` : "")]),
  );
}

function show(found, board, asBefore) {
  const label = labels(found, board);
  const arrows = { higher: " ↑", lower: " ↓" };
  const head = table.tHead.rows[0];
  head.replaceChildren(heads[0], heads[1], ...(drawing && asBefore ? [drawing] : []));
  for (const name of found.columns) {
    const made = cell("th", "columnheader", "number", label[name] + (arrows[board.columns[name].better] ?? ""));
    made.scope = "col";
    if (name === found.sort) made.setAttribute("aria-sort", board.columns[name].better === "lower" ? "ascending" : "descending");
    head.append(made);
  }
  head.append(heads.at(-1));
  const alone = found.rows.length === 1;
  table.caption.textContent = `Ranked by ${label[found.sort]}`;
  table.tBodies[0].replaceChildren(
    ...found.rows.map((row) => {
      const by = row.values[found.sort], before = known.get(`${row.model}@${row.revision}`);
      const made = document.createElement("tr");
      made.setAttribute("role", "row");
      if (!row.complete) made.className = "apart";
      const ends = alone ? null : (by.all_rank_interval ?? by.rank_interval);
      const of = by.rank ?? (ends && [...new Set(ends)].join("–"));
      const rank = cell("td", "cell", "rank", alone || !of ? nothing(alone ? ALONE : why(row, by)) : String(of));
      if (by.rank && ends && ends[0] !== ends[1]) {
        const note = document.createElement("small");
        note.className = "note";
        note.textContent = ends.join("–");
        rank.append(" ", note);
      }
      made.append(rank, before.querySelector("th").cloneNode(true));
      if (drawing && asBefore) made.append(before.querySelector(".drawn").cloneNode(true));
      for (const name of found.columns) {
        const value = row.values[name], column = board.columns[name];
        const of = cell("td", "cell", `number${name === found.sort ? " sorted" : ""}`, value.value === null ? nothing(why(row, value)) : shown(column, value.value));
        of.dataset.label = label[name];
        if (value.interval) of.title = `95 % interval ${value.interval.map((end) => shown(column, end)).join(" – ")}`;
        made.append(of);
      }
      const tier = cell("td", "cell", "number", by.all_tier && !alone ? String(by.all_tier) : nothing("No tier"));
      tier.dataset.label = "Tier";
      made.append(tier);
      return made;
    }),
  );
  const sort = form.elements.sort, chosen = sort.value;
  sort.replaceChildren(new Option("automatic", ""), ...found.columns.map((name) => new Option(label[name], name)));
  sort.value = found.columns.includes(chosen) ? chosen : "";
}

async function digest(text) {
  if (!crypto.subtle) return "computed over HTTPS only";
  const found = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(found)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Ranks columns as Columns does, each in a worker of its own: the page stays as quick as it is, and columns are ranked
// at the same time.
class Apart {
  constructor(board) {
    Object.assign(this, { board, workers: new Map(), waiting: new Map(), asked: 0 });
  }

  async #made(name) {
    const { board, waiting } = this, values = await text(columns[Object.keys(board.columns).indexOf(name)]);
    const worker = new Worker(document.querySelector("script[src*=ranking]").src);
    worker.addEventListener("message", ({ data: { id, found, error } }) => {
      const { resolve, reject } = waiting.get(id) ?? {};
      waiting.delete(id);
      if (error === undefined) resolve(found);
      else if (reject) reject(new Error(error));
    });
    worker.postMessage({ name, board, values });
    return worker;
  }

  // The worker of a column. If its values cannot be had, they are asked for again the next time.
  worker(name) {
    const { workers } = this;
    if (!workers.has(name)) {
      const made = this.#made(name);
      workers.set(name, made);
      made.catch(() => workers.delete(name));
    }
    return workers.get(name);
  }

  async rank(name, plan) {
    const worker = await this.worker(name), id = ++this.asked;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      worker.postMessage({ id, name, plan });
    });
  }
}

let opening;

// The board, whose shown columns are made ready while the visitor chooses.
async function opened() {
  const board = JSON.parse(await text(choices)), apart = new Apart(board);
  for (const { value, checked } of form.querySelectorAll("[name=column]")) if (checked && value in board.columns) apart.worker(value);
  return new Rankings(board, apart);
}

const ready = () => (opening ??= opened().catch((error) => {
  opening = undefined;
  throw error;
}));

async function rankThese(query) {
  const chosen = query.toString(), mine = ++last;
  document.getElementById("of-all").hidden = Boolean(chosen); // it is said of all models
  state.textContent = "Computing …";
  await new Promise(requestAnimationFrame);
  try {
    rankings = await ready();
    const found = await rankings.select(query);
    if (mine !== last) return;
    show(found, rankings.board, !query.has("weight"));
    for (const legend of document.querySelectorAll(".legend")) legend.hidden = query.has("weight");
    if (drawing) document.getElementById("undrawn").hidden = !query.has("weight");
    document.getElementById("selection").textContent = found.selection;
    document.getElementById("digest").textContent = await digest(found.selection);
    state.textContent = found.rows.length ? `${found.rows.length} of ${rankings.board.rows.length} models` : "No model meets these conditions";
    history.replaceState(null, "", chosen ? `?${chosen}` : location.pathname);
  } catch (error) {
    if (!(error instanceof Refusal) && !(error instanceof TypeError && /fetch/i.test(error.message))) throw error;
    state.textContent = error.message;
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  rankThese(asked());
});
form.addEventListener("focusin", ready, { once: true });
form.addEventListener("change", () => rankThese(asked()));

const given = new URLSearchParams(location.search);
given.delete("snapshot");
if (given.size) {
  restore(given);
  // What follows the form would move once the choice is ranked: it is shown then.
  const rest = document.querySelectorAll("#choose ~ *, body > footer");
  for (const part of rest) part.style.visibility = "hidden";
  rankThese(given).finally(() => rest.forEach((part) => (part.style.visibility = "")));
}
