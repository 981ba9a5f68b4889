// Tables of a published board sort by a click on a heading, and long ones can be narrowed down. Without scripts they are
// in the order of the board.
"use strict";

const announcer = document.getElementById("announcer");
const FEWEST_TO_FILTER = 8;

// What a cell sorts by: its number where it begins with one, else its text; cells without a value come last.
function value(row, column) {
  const text = row.cells[column]?.textContent.trim() ?? "";
  const number = text.replace(/[\s\u202f\u00a0]/g, "").match(/^[−-]?\d+(\.\d+)?/);
  if (number) return { rank: 0, number: Number(number[0].replace("−", "-")), text };
  return { rank: /\p{L}/u.test(text) ? 1 : 2, number: 0, text };
}

function sort(table, column, descending) {
  const sign = descending ? -1 : 1;
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, by: value(row, column) }));
  rows.sort(
    ({ by: one }, { by: other }) =>
      one.rank - other.rank || sign * (one.number - other.number || one.text.localeCompare(other.text, "en")),
  );
  table.tBodies[0].append(...rows.map(({ row }) => row));
}

for (const table of document.querySelectorAll("table")) {
  const heads = table.tHead?.rows;
  if (heads?.length !== 1 || table.tBodies.length !== 1 || table.tBodies[0].rows.length < 2) continue;
  if ([...table.tBodies[0].rows].some((row) => [...row.cells].some((cell) => cell.colSpan > 1))) continue;
  [...heads[0].cells].forEach((head, column) => {
    const label = head.querySelector("span") ?? head;
    if (!head.textContent.trim() || head.querySelector("a, button, details")) return;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sorts";
    button.append(...label.childNodes);
    button.querySelector(".arrow")?.remove();
    const arrow = document.createElement("span");
    arrow.setAttribute("aria-hidden", "true");
    button.append(arrow);
    label.append(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending" || !head.hasAttribute("aria-sort");
      for (const other of heads[0].cells) {
        other.removeAttribute("aria-sort");
        const mark = other.querySelector(".sorts > span:last-child");
        if (mark) mark.textContent = "";
      }
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      arrow.textContent = descending ? " ▼" : " ▲";
      sort(table, column, descending);
      announcer.textContent = `Sorted ${head.getAttribute("aria-sort")}`;
    });
  });
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FEWEST_TO_FILTER) continue;
  const label = document.createElement("label");
  label.className = "narrow";
  label.textContent = "Only rows with ";
  const input = document.createElement("input");
  input.type = "search";
  label.append(input);
  (table.closest(".scroll") ?? table).before(label);
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      left += row.hidden ? 0 : 1;
    }
    announcer.textContent = `${left} of ${rows.length} rows`;
  });
}
