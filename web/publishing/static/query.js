// SQL over the site's own Parquet files: DuckDB as WebAssembly, in a worker of this browser. Nothing is sent anywhere.
"use strict";

const MOST_SHOWN = 500;
const KIND = { decimal: 7, date: 8, timestamp: 10, list: 12, struct: 13 }; // in Arrow's numbering
const answer = document.getElementById("answer");
const state = document.getElementById("state");
const here = (address) => new URL(address, document.baseURI).href;
const listed = query.dataset.tables.trim().split(/\s+/); // a name, its address, the next name …
const views = JSON.parse(document.getElementById("made").textContent); // name → its SELECT, and what that needs
const named = query.dataset.named.split(" "); // what people ask for by its name
const tables = Object.fromEntries(listed.flatMap((name, at) => (at % 2 ? [] : [[name, listed[at + 1]]])));

// Expands a compressed file, unless the web server had it expanded on its way.
async function expanded(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(`${address}: ${response.status}`);
  const body = await response.blob();
  const start = new Uint8Array(await body.slice(0, 2).arrayBuffer());
  if (start[0] !== 0x1f || start[1] !== 0x8b) return body.arrayBuffer();
  return new Response(body.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

async function start() {
  const { worker, duckdb, parquet } = query.dataset;
  const [engine, reader] = await Promise.all([expanded(here(duckdb)), expanded(here(parquet))]);
  await engines.openParquet({ module_or_path: reader });
  const database = new engines.AsyncDuckDB(new engines.VoidLogger(), new Worker(here(worker)));
  const module = URL.createObjectURL(new Blob([engine], { type: "application/wasm" }));
  await database.instantiate(module);
  URL.revokeObjectURL(module);
  await database.open({});
  const connection = await database.connect();
  // Extensions lie on a server of others: what needs one is to say so, and not to end in the middle.
  await connection.query("SET autoload_known_extensions = false");
  return connection;
}

let opening = null;
const loaded = new Map();

async function load(connection, name) {
  const response = await fetch(here(tables[name])).catch(() => ({ status: "no answer" }));
  if (!response.ok) throw new Error(`${tables[name]} cannot be fetched (${response.status}); run the query again`);
  const rows = engines.readParquet(new Uint8Array(await response.arrayBuffer())).intoIPCStream();
  await connection.insertArrowFromIPCStream(rows, { name, create: true });
  // Times are in UTC, and without a zone as on the SQL page: what computes with zones is an extension.
  const zoned = `SELECT column_name FROM duckdb_columns() WHERE table_name = '${name}' AND data_type LIKE '% WITH TIME ZONE'`;
  for (const { column_name: column } of await connection.query(zoned)) {
    await connection.query(`ALTER TABLE ${name} ALTER "${column}" TYPE TIMESTAMP`);
  }
}

// A table is fetched, a view is made of what it needs.
async function make(connection, name) {
  if (name in tables) return load(connection, name);
  const { sql, needs } = views[name];
  await need(connection, needs);
  await connection.query(`CREATE VIEW ${name} AS ${sql}`);
}

async function need(connection, names) {
  for (const name of names) {
    if (!loaded.has(name)) loaded.set(name, make(connection, name));
    try {
      await loaded.get(name);
    } catch (error) {
      loaded.delete(name); // the next query tries again
      throw error;
    }
  }
}

// Only what the query names is there.
async function ask(sql) {
  opening ??= start();
  const connection = await opening;
  await need(connection, named.filter((name) => new RegExp(`\\b${name}\\b`, "i").test(sql)));
  return connection.query(sql);
}

// A value as the SQL page has it. type: Arrow's.
function plain(value, type) {
  if (value === null || value === undefined) return null;
  if (type.typeId === KIND.decimal) return Number(String(value)) / 10 ** type.scale;
  if (type.typeId === KIND.date) return new Date(Number(value)).toISOString().slice(0, 10);
  if (type.typeId === KIND.timestamp) {
    const micros = String(Math.round(Number(value) * 1000)).slice(-3); // beyond the milliseconds of a Date
    return new Date(Number(value)).toISOString().replace("Z", `${micros}Z`);
  }
  if (type.typeId === KIND.list) return [...value].map((item) => plain(item, type.children[0].type));
  if (type.typeId === KIND.struct) return Object.fromEntries(type.children.map((of) => [of.name, plain(value[of.name], of.type)]));
  if (value instanceof Uint8Array) return [...value].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  return value;
}

function rowsOf(result) {
  const { fields } = result.schema;
  const columns = fields.map((_, place) => result.getChildAt(place)); // names may repeat
  return Array.from({ length: result.numRows }, (_, row) =>
    columns.map((column, place) => plain(column.get(row), fields[place].type)),
  );
}

function shown(value) {
  return value === null || typeof value !== "object" ? value : JSON.stringify(value);
}

// A cell of a CSV file; a text that a spreadsheet would run as a formula gets an apostrophe before it.
function cellOf(value) {
  if (value === null) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return `"${text.replaceAll('"', '""')}"`;
}

function element(name, content, className) {
  const made = document.createElement(name);
  if (content !== undefined) made.textContent = content;
  if (className) made.className = className;
  return made;
}

function show(result) {
  const { fields } = result.schema;
  const rows = rowsOf(result).map((row) => row.map(shown));
  const first = rows.slice(0, MOST_SHOWN);
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const field of fields) {
    const cell = element("th", field.name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of first) {
    const line = body.insertRow();
    for (const cell of row) {
      line.append(element("td", cell === null ? "–" : String(cell), typeof cell === "number" ? "number" : "cell"));
    }
  }
  const scroll = element("div", undefined, "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "Rows");
  scroll.append(table);
  const csv = [fields.map((field) => field.name), ...rows].map((row) => row.map(cellOf).join(",")).join("\r\n");
  const link = element("a", "Download as CSV");
  link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
  link.download = "answer.csv";
  const count = rows.length === 1 ? "1 row" : `${rows.length} rows`;
  const note = element("p", undefined, "note");
  note.append(first.length < rows.length ? `${count}, the first ${first.length} shown. ` : `${count}. `, link);
  answer.replaceChildren(note, scroll);
  state.textContent = count;
}

async function run() {
  const button = query.querySelector("button");
  button.setAttribute("aria-busy", "true");
  state.textContent = opening ? "Running …" : "Fetching DuckDB …";
  try {
    show(await ask(text.value));
  } catch (error) {
    const problem = element("p", String(error.message ?? error).split(/\n\s+at |\n\nPlease try installing/)[0], "problem");
    problem.setAttribute("role", "alert");
    answer.replaceChildren(problem);
    state.textContent = "";
  }
  button.removeAttribute("aria-busy");
}

query.addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
for (const example of document.querySelectorAll("button[data-query]")) {
  example.addEventListener("click", () => {
    text.value = example.dataset.query;
    run();
  });
}
