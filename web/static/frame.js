// The menu closes by Escape and by a click elsewhere; the colours change in place. Both work without it.
"use strict";

const menu = document.querySelector(".menu");

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !menu.open) return;
  menu.open = false;
  menu.querySelector("summary").focus();
});

document.addEventListener("click", (event) => {
  if (menu.open && !menu.contains(event.target)) menu.open = false;
});

menu.querySelector(".themes").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const { value } = event.submitter;
  // The answer sets the cookie; the page that it leads back to is not needed.
  await fetch(`${form.action}?theme=${value}`, { redirect: "manual" });
  document.documentElement.dataset.theme = value;
  for (const button of form.querySelectorAll("[name=theme]")) {
    button.setAttribute("aria-pressed", String(button.value === value));
  }
});
