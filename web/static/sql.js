// Ctrl-Enter runs the query; Tab stays a way out of the editor. The page works without it.
"use strict";

const query = document.getElementById("query");
const text = document.getElementById("q");

text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    query.requestSubmit();
  }
});

query.addEventListener("submit", () => {
  query.querySelector("button").setAttribute("aria-busy", "true");
});
