// The leaderboard: a row and its point in the chart light up together, and the button says how many models it compares.
// Everything works without this. Events are listened to on the document, since parts of the page are exchanged.
"use strict";

let lit = null;

function light(event) {
  const found = event.target.closest?.("[data-row]");
  const row = found ? found.dataset.row : null;
  if (row === lit) return;
  for (const part of document.querySelectorAll(".lit")) part.classList.remove("lit");
  if (row !== null) for (const part of document.querySelectorAll(`[data-row="${row}"]`)) part.classList.add("lit");
  lit = row;
}

document.addEventListener("mouseover", light);
document.addEventListener("focusin", light);

document.addEventListener("change", (event) => {
  if (event.target.name !== "model" || !event.target.form?.matches(".comparing")) return;
  const chosen = new Set(new FormData(event.target.form).getAll("model"));
  const button = event.target.form.querySelector("[data-compare]");
  button.textContent = chosen.size > 1 ? `Compare ${chosen.size} models` : "Compare selected";
});
