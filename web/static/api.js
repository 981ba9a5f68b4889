// Shows what a request answers below its form; without it the form opens the address itself.
"use strict";

const MOST = 20000; // characters that are shown

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const outcome = form.querySelector(".outcome");
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
    const line = document.createElement("p");
    const body = document.createElement("pre");
    body.tabIndex = 0;
    body.setAttribute("aria-label", "Answer");
    try {
      const response = await fetch(`${form.action}?${asked}`);
      let text = await response.text();
      try {
        text = JSON.stringify(JSON.parse(text), null, 2);
      } catch {
        // not JSON: shown as it came
      }
      const address = document.createElement("a");
      address.href = response.url;
      address.textContent = new URL(response.url).pathname + new URL(response.url).search;
      line.append(`${response.status} from `, address);
      body.textContent = text.length > MOST ? `${text.slice(0, MOST)}\n… (${text.length} characters)` : text;
    } catch (error) {
      line.append(`No answer: ${error.message}`);
    }
    outcome.replaceChildren(line, ...(body.textContent ? [body] : []));
  });
}

// A link to an operation opens it.
const open = () => {
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (named instanceof HTMLDetailsElement) {
    named.open = true;
    named.scrollIntoView();
  }
};

window.addEventListener("hashchange", open);
open();
