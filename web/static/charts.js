// Draws the charts that come into view, and all of them before printing. Each is a Vega-Lite specification in a JSON block
// of its figure; the table beside it says the same. The libraries are 760 KB, so they are loaded with the first chart.
// Expressions are interpreted (ast), never compiled to functions, since the page's policy forbids that.
"use strict";

const libraries = document.currentScript.dataset.libraries.split(" ");
let loading;

function load(address) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = address;
    script.async = false; // they run in their order
    script.addEventListener("load", resolve);
    script.addEventListener("error", () => reject(new Error(`${address} cannot be loaded`)));
    document.head.append(script);
  });
}

async function draw(figure) {
  figure.dataset.chart = "drawing";
  try {
    await (loading ??= Promise.all(libraries.map(load)));
    const specification = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const view = new vega.View(vega.parse(vegaLite.compile(specification).spec, null, { ast: true }), {
      // SVG takes its colours from the style sheet, in the light scheme and in the dark one.
      renderer: "svg",
      container: figure.querySelector(".chart"),
      expr: vegaInterpreter.expressionInterpreter,
      hover: false,
    });
    await view.runAsync();
    // The figure says in words what is drawn; its marks one by one would be noise.
    figure.querySelector(".chart svg").setAttribute("aria-hidden", "true");
    figure.dataset.chart = "drawn";
  } catch (error) {
    console.error(error);
    figure.dataset.chart = "failed";
    figure.querySelector(".space")?.remove();
    for (const table of figure.querySelectorAll("details")) table.open = true;
  }
}

const waiting = () => document.querySelectorAll('figure[data-chart="waiting"]');
const inView = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    inView.unobserve(target);
    if (target.dataset.chart === "waiting") draw(target);
  }
}, { rootMargin: "0px" });
const watch = () => waiting().forEach((figure) => inView.observe(figure));

watch();
document.addEventListener("swapped", watch); // board.js has put another page's part in this one's place
addEventListener("beforeprint", () => waiting().forEach(draw));
