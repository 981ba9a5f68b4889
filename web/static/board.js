// Saves reloads; every page works without it. Links and forms marked data-swap fetch the page they lead to and put its
// #swap in place of this one's, so that sorting and ranks have one implementation: the server's.
"use strict";

let showing = location.pathname + location.search;

const announce = (text) => {
  document.getElementById("announcer").textContent = text;
};

async function swap(address, focus = null) {
  const place = document.getElementById("swap");
  place.setAttribute("aria-busy", "true");
  let fetched;
  try {
    const response = await fetch(address, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(String(response.status));
    fetched = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("swap");
    if (!fetched) throw new Error("nothing to swap");
  } catch {
    location.assign(address); // the server's own page says what is wrong
    return;
  }
  // What is elsewhere and has links that keep the parameters of this page: they change with it.
  for (const part of document.querySelectorAll("[data-along]")) {
    const other = fetched.ownerDocument.getElementById(part.id);
    if (other) part.replaceWith(document.adoptNode(other));
  }
  place.replaceWith(document.adoptNode(fetched));
  document.dispatchEvent(new Event("swapped"));
  history.pushState(null, "", address);
  showing = location.pathname + location.search;
  const target = focus && fetched.querySelector(`[data-key="${CSS.escape(focus)}"]`);
  if (target) target.focus();
  const sorted = fetched.querySelector("[aria-sort]");
  announce(sorted && focus && focus.startsWith("sort-") ? `Sorted ${sorted.getAttribute("aria-sort")}` : "Updated");
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-swap]");
  const plain = !event.defaultPrevented && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  if (!link || !plain || event.altKey || !document.getElementById("swap")) return;
  event.preventDefault();
  swap(link.href, link.dataset.key);
});

for (const form of document.querySelectorAll("form[data-swap-form]")) {
  const submit = () => {
    const asked = new URLSearchParams();
    const metrics = [];
    for (const [key, value] of new FormData(form)) {
      if (key === "metrics") metrics.push(value);
      else if (value) asked.set(key, value);
    }
    const boxes = [...form.querySelectorAll('[name="metrics"]')];
    if (boxes.some((box) => box.checked !== box.defaultChecked) || location.search.includes("metrics=")) {
      if (metrics.length) asked.set("metrics", metrics.join(","));
    }
    const kept = new URLSearchParams(location.search);
    for (const key of ["sort", "order"]) if (kept.has(key)) asked.set(key, kept.get(key));
    // A metric that is no longer shown cannot be seen to sort.
    if (metrics.length && boxes.some((box) => box.value === asked.get("sort") && !box.checked)) {
      asked.delete("sort");
      asked.delete("order");
    }
    swap(form.action + (asked.size ? `?${asked}` : ""));
  };
  let wait;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  form.addEventListener("change", (event) => {
    if (event.target.type !== "search") submit();
  });
  form.addEventListener("input", (event) => {
    if (event.target.type !== "search") return;
    clearTimeout(wait);
    wait = setTimeout(submit, 300);
  });
}

// Following a #fragment is a popstate as well, and needs nothing.
window.addEventListener("popstate", () => {
  if (location.pathname + location.search !== showing) location.reload();
});

// Progress: elements with data-poll ask for their JSON until the state, or what is waited for, changes; then the page is loaded anew.

const duration = (seconds) => {
  if (seconds === null) return "–";
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
};
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
const shown = {
  seconds_left: duration,
  prompts_per_second: (rate) => (rate === null ? "–" : rate.toFixed(1)),
};

async function poll(element, pause) {
  if (document.hidden) {
    document.addEventListener("visibilitychange", () => poll(element, pause), { once: true });
    return;
  }
  try {
    const response = await fetch(element.dataset.poll);
    if (!response.ok) throw new Error(String(response.status));
    const progress = await response.json();
    for (const field of element.querySelectorAll("[data-field]")) {
      const key = field.dataset.field;
      if (key === "bar") {
        field.value = progress.prompts_done;
      } else field.textContent = (shown[key] ?? grouped)(progress[key]);
    }
    const waits = progress.waits.map((wait) => wait.kind).join(" ");
    if (progress.state !== element.dataset.state || waits !== element.dataset.waits) {
      location.reload();
      return;
    }
    pause = 2000;
  } catch {
    pause = Math.min(pause * 2, 60000); // the server may be restarting
  }
  setTimeout(() => poll(element, pause), pause);
}

for (const element of document.querySelectorAll("[data-poll]")) setTimeout(() => poll(element, 2000), 2000);

// What is marked #refresh (the queue, all the time) or data-follow (boards, while something is scored) is fetched again
// and exchanged where it differs, so that progress, new rows and workers appear as well. The server makes it, once.

const received = new WeakMap(); // what the server sent last: what is opened or pointed at has changed the elements since
const REFRESH = 2000;
const FOLLOW = 4000;

async function refresh(place, pause) {
  if (!place.isConnected) return;
  if (document.hidden) {
    document.addEventListener("visibilitychange", () => refresh(place, pause), { once: true });
    return;
  }
  const usual = place.id === "refresh" ? REFRESH : FOLLOW;
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!response.ok) throw new Error(String(response.status));
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const fetched = page.getElementById(place.id);
    if (!fetched) throw new Error("nothing to refresh");
    const last = usual === FOLLOW && !("follow" in fetched.dataset);
    const sent = fetched.innerHTML;
    if (sent !== (received.get(place) ?? place.innerHTML)) exchange(place, fetched);
    received.set(place, sent);
    if (last) {
      announce("Scoring is done");
      return;
    }
    pause = usual;
  } catch {
    pause = Math.min(pause * 2, 60000); // the server may be restarting
  }
  setTimeout(() => refresh(place, pause), pause);
}

function follow() {
  for (const place of document.querySelectorAll("[data-follow]")) setTimeout(() => refresh(place, FOLLOW), FOLLOW);
}

function exchange(place, fetched) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = [...place.querySelectorAll(".scroll")].map((part) => [
    part.getAttribute("aria-label"),
    part.scrollLeft,
    part.scrollTop,
  ]);
  const opened = [...place.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent);
  const chosen = [...place.querySelectorAll("input:checked")].map((box) => box.getAttribute("aria-label"));
  place.replaceChildren(...document.adoptNode(fetched).childNodes);
  for (const summary of place.querySelectorAll("details > summary")) {
    if (opened.includes(summary.textContent)) summary.parentElement.open = true;
  }
  for (const box of place.querySelectorAll("input[type=checkbox]")) {
    box.checked = chosen.includes(box.getAttribute("aria-label"));
  }
  for (const [label, left, top] of scrolled) {
    place.querySelector(`.scroll[aria-label="${CSS.escape(label)}"]`)?.scrollTo(left, top);
  }
  if (focused) {
    const selector = focused.dataset.key
      ? `[data-key="${CSS.escape(focused.dataset.key)}"]`
      : `[aria-label="${CSS.escape(focused.getAttribute("aria-label") ?? "")}"]`;
    place.querySelector(selector)?.focus({ preventScroll: true });
  }
  if (fetched.dataset.summary !== place.dataset.summary) {
    place.dataset.summary = fetched.dataset.summary;
    announce(fetched.dataset.summary);
  }
}

for (const place of document.querySelectorAll("#refresh")) setTimeout(() => refresh(place, REFRESH), REFRESH);
follow();
document.addEventListener("swapped", follow);
