// Puts a button beside each text that is meant to be copied. Without scripts they are selected by hand.
"use strict";

function addButtons() {
  if (!navigator.clipboard) return; // only on https and localhost
  for (const text of document.querySelectorAll("pre[data-copy]:not([data-copied])")) {
    text.dataset.copied = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet copy";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy: ${text.getAttribute("aria-label")}`);
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "Copied";
      document.getElementById("announcer").textContent = "Copied";
    });
    text.after(button);
  }
}

addButtons();
document.addEventListener("swapped", addButtons); // board.js has put another view's part in this one's place
