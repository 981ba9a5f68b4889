"""The guide to the metrics as a page: its sentences, its links, and formulas that browsers draw."""

import math
import re
from contextlib import closing
from html.parser import HTMLParser

import pytest

from registry.metrics import METRICS
from registry.metrics.guide import BETWEEN
from web import create_app
from web.pages.guide import mathml, prose

COMPARISONS = {comparison.name: comparison for comparison in BETWEEN}
DESCRIBED = {**METRICS, **COMPARISONS}


class Sections(HTMLParser):
    """A page's ids and links, and the text and formulas of each section with an id."""

    def __init__(self):
        super().__init__()
        self.ids, self.links = [], []
        self.text, self.formulas = {}, {}
        self.open = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if tag == "a" else []
        if tag == "section":
            self.open.append(attributes.get("id"))
        if tag == "math":
            for name in filter(None, self.open):
                self.formulas[name] = self.formulas.get(name, 0) + 1

    def handle_endtag(self, tag):
        if tag == "section":
            self.open.pop()

    def handle_data(self, data):
        for name in filter(None, self.open):
            self.text[name] = " ".join(f"{self.text.get(name, '')} {data}".split())


@pytest.fixture(scope="module")
def guide_client(tmp_path_factory):
    """Return a client on an empty database, since the guide needs no data."""
    folder = tmp_path_factory.mktemp("guide")
    return create_app(database_url=f"sqlite:///{folder / 'empty.db'}").test_client()


@pytest.fixture(scope="module")
def guide(guide_client):
    response = guide_client.get("/metrics-guide")
    assert response.status_code == 200
    sections = Sections()
    sections.feed(response.text)
    return sections


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_metric_has_a_section_with_its_formulas_needs_and_example(guide, name):
    entry = DESCRIBED[name]
    assert guide.formulas[name] == len(entry.formulas)
    text = guide.text[name]
    assert DESCRIBED[name].label in text
    assert DESCRIBED[name].summary in text
    assert f"Value: {entry.example.value}" in text
    assert entry.sources[0].place in text
    assert ("Published otherwise" in text) == (entry.differs is not None)


def number(text):
    return {"−∞": -math.inf, "∞": math.inf}.get(text) or float(text.replace("−", "-"))


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_metric_states_the_range_and_direction_of_the_catalogue(guide, name):
    low, high = re.search(r"Range (\S+) … ([^\s,]+)", guide.text[name]).groups()
    metric = DESCRIBED[name]
    assert (number(low), number(high)) == (
        -math.inf if metric.low is None else metric.low,
        math.inf if metric.high is None else metric.high,
    )
    stated = re.search(r"(higher|lower) is better", guide.text[name])
    assert (stated[1] if stated else "neither") == metric.better


def test_every_link_within_the_page_leads_to_a_part_of_it(guide):
    within = [link[1:] for link in guide.links if link.startswith("#")]
    assert set(DESCRIBED) <= set(within), "the contents list every metric"
    assert set(within) - {"main"} <= set(guide.ids)


def test_texts_are_escaped_and_names_of_metrics_become_links():
    assert prose("`cora` < `cyclic`") == '<a href="#cora"><code>cora</code></a> &lt; <code>cyclic</code>'


def test_a_formula_is_converted_once():
    assert mathml(r"\frac{1}{2}") is mathml(r"\frac{1}{2}")


def test_an_operator_between_two_names_stands_between_identifiers():
    # Between two texts it would be drawn without room on either side.
    assert "<mi>BAcc</mi><mo>&#x02212;</mo><mi>WAcc</mi>" in mathml(r"\text{BAcc} - \text{WAcc}")
    assert "<mtext>&#x000A0;of&#x000A0;</mtext>" in mathml(r"p \text{ of } M")


def test_a_thin_space_follows_the_name_of_a_function():
    assert '<mi>log</mi><mspace width="0.167em" /><mi>P</mi>' in mathml(r"\log P")


# A formula that is drawn has its numerators above its denominators.
STACKED = """
() => [...document.querySelectorAll("mfrac")].every((fraction) => {
  const [above, below] = [...fraction.children].map((part) => part.getBoundingClientRect());
  return above.height > 0 && above.bottom <= below.top + 2;
})
"""
# Content wider than the page must scroll in its own box.
CUT_OFF = """
() => [...document.querySelectorAll("math")]
  .filter((formula) => formula.getBoundingClientRect().right > document.documentElement.clientWidth)
  .filter((formula) => !["auto", "scroll"].includes(getComputedStyle(formula.parentElement).overflowX)).length
"""


@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_draws_the_formulas_and_the_page_does_not_scroll_sideways(chromium, guide_client, width):
    def answer(route):
        with guide_client.get(route.request.url.removeprefix("http://localhost")) as response:
            route.fulfill(status=response.status_code, headers=dict(response.headers), body=response.data)

    with closing(chromium.new_page(viewport={"width": width, "height": 900})) as page:
        complaints = []
        page.on("console", lambda message: complaints.append(message.text))
        page.route("**/*", answer)
        page.goto("http://localhost/metrics-guide#npsq_correct")
        assert page.locator(":target h3").inner_text().startswith("NPSQ of the right option"), "its family unfolds"
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("mfrac").count() > 10
        assert page.evaluate(STACKED)
        assert page.evaluate(CUT_OFF) == 0
    assert complaints == []
