// Draws the Mermaid blocks of a page, again when the colours change. Without this script a page shows their text.
(function () {
  "use strict";

  const SMALLEST = 0.6; // of a drawing's size; smaller, its words cannot be read

  const blocks = [...document.querySelectorAll(".highlight-mermaid")].map((block) => ({
    block,
    text: block.textContent,
  }));
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    const chosen = document.body.dataset.theme;
    return chosen === "dark" || (chosen !== "light" && dark.matches);
  }

  let drawn = null;
  let done = Promise.resolve();

  async function draw() {
    if (drawn === isDark()) return;
    drawn = isDark();
    mermaid.initialize({
      startOnLoad: false,
      securityLevel: "strict",
      theme: drawn ? "dark" : "neutral",
      fontFamily: getComputedStyle(document.body).fontFamily,
    });
    for (const [number, { block, text }] of blocks.entries()) {
      const { svg } = await mermaid.render(`diagram-${number}`, text);
      const figure = document.createElement("div");
      figure.className = "diagram";
      figure.tabIndex = 0; // A wide one scrolls; so it must be reachable with the keyboard.
      figure.innerHTML = svg;
      const drawing = figure.firstElementChild;
      drawing.style.minWidth = `${SMALLEST * drawing.viewBox.baseVal.width}px`; // from there on it scrolls
      block.replaceChildren(figure);
    }
    document.body.dataset.diagrams = drawn ? "dark" : "light";
  }

  function again() {
    done = done.then(draw);
  }

  again();
  dark.addEventListener("change", again);
  new MutationObserver(again).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
})();
