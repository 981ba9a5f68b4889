"""Accessibility: axe-core on every kind of page, wide and narrow, light and dark, and use with the keyboard only.

test_browser.py checks that headings sort by the keyboard and announce it.
"""

import re
from pathlib import Path

import pytest

from tests.web.test_browser import draw_charts, page, serve

VENDOR = Path(__file__).parent / "vendor"
AXE = (VENDOR / "axe.min.js").read_text(encoding="utf-8")
# Swagger UI draws the operations of the API, with its own <main> within ours: violations in it are ignored.
RUN = """
async () => {
  const { violations } = await axe.run(document, { resultTypes: ["violations"] });
  const twice = document.querySelector("main#operations") !== null;
  const ours = violations.filter(({ id }) => !(twice && /^landmark-(main-is-top|no-duplicate-main|unique)/.test(id)));
  return ours.flatMap(({ id, nodes }) => nodes.slice(0, 5).map((node) => `${id}: ${node.html.slice(0, 120)}`));
}
"""
PLANTED = """
() => {
  const text = document.createElement("p");
  text.textContent = "Hardly to be read";
  text.className = "planted";
  text.style.color = "color-mix(in srgb, var(--ink) 30%, var(--ground))";
  document.querySelector("main").append(text, document.createElement("button"));
}
"""
# Effects of width and of colour scheme are independent: colours are the same at every width.
LOOKS = (({"width": 1280, "height": 900}, "light"), ({"width": 390, "height": 844}, "dark"))


def list_seeded_pages(seeded):
    """Return a page of every kind without charts, on the seeded site."""
    evaluations, questions = seeded.evaluations, seeded.questions
    return (
        "/",
        "/?group=no",
        "/?benchmark=capitals&subject=world&published=yes&sealed_from=2020-01-01",
        "/?sort=nonsense",
        "/models",
        "/models/alpha",
        "/benchmarks",
        "/benchmarks/capitals",
        f"/evaluations/{evaluations['slow']}",
        f"/questions/{questions['q7']}",
        "/compare",
        f"/compare?left={evaluations['alpha']}",
        "/protocol",
        "/queue",
        "/metrics-guide",
        "/api",
        "/account",
        "/sign-in",
        "/submit",
        "/nowhere",
        "/chain",
        "/withdrawn",
    )


def draw_pages(outputs):
    """Return a page of every kind with charts, on the site of imported outputs."""
    evaluations = outputs.evaluations
    cyclic = evaluations["leaning", "cyclic", "symbols"]
    return (
        "/boards",
        f"/evaluations/{outputs.parted}",
        "/boards/order",
        "/boards/order/pairs",
        "/overview",
        "/benchmarks/mixed/answer-moving",
        f"/evaluations/{evaluations['leaning', 'adversarial', 'symbols']}",
        f"/evaluations/{cyclic}",
        f"/evaluations/{cyclic}/questions/{outputs.questions['m4']}",
        "/compare?left=leaning&right=steady&benchmark=mixed",
    )


@pytest.fixture
def sites(sqlite_site, sqlite_drawn):
    """Yield the addresses of every kind of page."""
    with serve(sqlite_site.client.application) as plain, serve(sqlite_drawn.client.application) as charted:
        yield [
            *(plain + path for path in list_seeded_pages(sqlite_site.seeded)),
            *(charted + path for path in draw_pages(sqlite_drawn.outputs)),
        ]


SOME = re.compile(
    r"(\d/|/models/alpha|/benchmarks/capitals|/evaluations/\d+|/questions/\d+|/queue|/sign-in|/nowhere|/boards/order|/overview"
    r"|&benchmark=mixed)$"
)
"""Pages that together contain every part of other pages."""


@pytest.mark.parametrize("looks", ["one for each of some", pytest.param("both", marks=pytest.mark.long)])
def test_axe_finds_no_barrier_of_any_level_on_any_page(chromium, sites, looks):
    violations = {}
    if looks != "both":
        sites = [address for address in sites if SOME.search(address)]
    with page(chromium, errors=True) as opened:
        for number, address in enumerate(sites):
            path = re.sub(r"^http://[^/]+", "", address)
            opened.goto(address)
            draw_charts(opened)
            opened.evaluate(AXE)
            opened.locator(".menu summary").click()
            for size, scheme in LOOKS if looks == "both" else [LOOKS[number % 2]]:
                opened.set_viewport_size(size)
                opened.emulate_media(color_scheme=scheme)
                if barriers := opened.evaluate(RUN):
                    violations[path, scheme] = barriers
        # Planted barriers are found, which proves that the check works under the page's policy and with its colours.
        opened.evaluate(PLANTED)
        planted = {barrier.partition(":")[0] for barrier in opened.evaluate(RUN)}
    assert violations == {}
    assert planted == {"button-name", "color-contrast"}


CONTROLS = """
() => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter((control) => control.checkVisibility() && control.type !== "hidden").length
"""
NOTE_FOCUS = """
() => {
  window.unseen = [];
  document.addEventListener("focusin", ({ target: control }) => {
    const style = getComputedStyle(control), box = control.getBoundingClientRect();
    control.dataset.reached = "yes";
    const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    if (!outlined || box.right <= 0 || box.bottom <= 0) window.unseen.push(control.outerHTML.slice(0, 120));
  });
}
"""


@pytest.mark.long
@pytest.mark.parametrize("shown", ["/?group=no", "/boards/order", "&benchmark=mixed"])
def test_every_control_is_reached_by_tab_and_shows_that_it_is(chromium, sites, shown):
    with page(chromium) as opened:
        opened.clock.install()
        (address,) = (site for site in sites if site.endswith(shown))
        opened.goto(address)
        draw_charts(opened)
        opened.clock.pause_at(opened.evaluate("Date.now()") / 1000 + 1)  # no live update runs
        opened.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
        controls = opened.evaluate(CONTROLS)
        assert controls > 10
        opened.evaluate(NOTE_FOCUS)
        # A date has a stop for its day, month, year and calendar each.
        for _ in range(controls + 3 * opened.locator("[type=date]").count()):
            opened.keyboard.press("Tab")
        assert opened.evaluate("window.unseen") == [], address
        assert opened.locator("[data-reached]").count() == controls, address
