// The SQL page with scripts: a query that waits or runs says so and can be cancelled. The page works without it.
"use strict";

const standing = document.getElementById("standing");
const cancel = document.getElementById("cancel");
const ticket = document.createElement("input");
ticket.type = "hidden";
ticket.name = "ticket";
const turns = () => query.dataset.turns.replace("TICKET", ticket.value);

async function look() {
  try {
    const response = await fetch(turns(), { headers: { Accept: "application/json" } });
    if (!response.ok) return;
    const { ahead, running } = await response.json();
    standing.textContent = running ? "Running …" : `Waiting: ${ahead} ${ahead === 1 ? "query is" : "queries are"} before yours`;
    cancel.hidden = false;
  } catch {
    standing.textContent = ""; // the answer has come, and this page goes
  }
}

query.addEventListener("submit", (event) => {
  if (event.submitter?.formAction && !event.submitter.formAction.endsWith("/sql")) return; // a download leaves the page
  ticket.value = crypto.randomUUID();
  query.append(ticket);
  query.querySelector("button").setAttribute("aria-busy", "true");
  setInterval(look, 500);
});

cancel.addEventListener("click", () => {
  const token = query.elements.csrf_token.value;
  fetch(`${turns()}/cancel`, { method: "POST", body: new URLSearchParams({ csrf_token: token }) });
});

// The ticket has served; the address is the one to share.
const address = new URL(location.href);
if (address.searchParams.has("ticket")) {
  address.searchParams.delete("ticket");
  history.replaceState(null, "", address);
}
