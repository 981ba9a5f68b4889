// Draws the charts. Each is a Vega-Lite specification in a JSON block of its figure; the table beside it says the same.
// Expressions are interpreted (ast), never compiled to functions, since the page's policy forbids that.
"use strict";

async function draw(figure) {
  figure.dataset.chart = "drawing";
  try {
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
    for (const table of figure.querySelectorAll("details")) table.open = true;
  }
}

const drawAll = () => document.querySelectorAll('figure[data-chart="waiting"]').forEach(draw);

drawAll();
document.addEventListener("swapped", drawAll); // board.js has put another page's part in this one's place
