// Steps from one question that flips to the next by key. The links do the same; the keys can be turned off, and are not
// listened to while something is being typed.
"use strict";

(() => {
  const steps = document.querySelector("[data-steps]");
  if (!steps) return;
  const KEYS = { n: "next", j: "next", p: "prev", k: "prev" };
  const button = steps.querySelector("[data-keys]");
  const announcer = document.getElementById("announcer");
  const store = (area, key, value) => {
    try {
      return value === undefined ? area.getItem(key) : area.setItem(key, value);
    } catch {
      return null; // storage may be forbidden
    }
  };
  let on = store(localStorage, "step-keys") !== "off";

  const show = () => {
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Keys on" : "Keys off";
  };
  show();
  steps.querySelector("[data-hint]").hidden = false;
  button.addEventListener("click", () => {
    on = !on;
    store(localStorage, "step-keys", on ? "on" : "off");
    show();
  });

  // After a step by key the reader is told where it led.
  if (store(sessionStorage, "stepped")) {
    store(sessionStorage, "stepped", "");
    setTimeout(() => (announcer.textContent = steps.dataset.steps), 100);
  }

  document.addEventListener("keydown", (event) => {
    const side = KEYS[event.key];
    if (!on || !side || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest("input, select, textarea, [contenteditable]")) return;
    const link = steps.querySelector(`[data-step="${side}"]`);
    if (!link) {
      announcer.textContent = side === "next" ? "No later question flips" : "No earlier question flips";
      return;
    }
    store(sessionStorage, "stepped", "yes");
    link.click();
  });
})();
