"""Charts in a real browser: drawn under the policy, on narrow screens, in both schemes; tables without scripts."""

from contextlib import closing

import pytest
from playwright.sync_api import expect

from tests.web.test_browser import draw_charts, page, serve

# The contrast of a text with its background must reach 4.5 : 1 (WCAG 2.2, 1.4.3) in both colour schemes.
CONTRAST = """
() => {
  const channel = (v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const parse = (c) => { const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest(".unseen, .skip, option, noscript, title")) continue;
    let ground = element, colour = null;
    while (ground) { const c = parse(getComputedStyle(ground).backgroundColor); if (c[3] === 255) { colour = c; break; } ground = ground.parentElement; }
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(colour ?? [255, 255, 255])].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${walker.currentNode.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""
# Marks of a chart: Vega's drawing of the data, without axes and grid.
MARKS = ".chart svg .role-mark path, .chart svg .role-mark line, .chart svg .role-mark text, .chart svg .role-mark rect"
VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
});
"""


@pytest.fixture
def drawn_address(sqlite_drawn):
    """Yield a server of the site of imported outputs."""
    with serve(sqlite_drawn.client.application) as base:
        yield base, sqlite_drawn.outputs


def paths(outputs):
    """Return pages with charts that the browser draws, and the number of charts on each."""
    evaluations = outputs.evaluations
    return {
        "/benchmarks/mixed/answer-moving": 1,
        f"/evaluations/{evaluations['leaning', 'adversarial', 'symbols']}": 3,
        f"/evaluations/{evaluations['leaning', 'cyclic', 'symbols']}": 5,
        f"/evaluations/{outputs.parted}": 6,
    }


def draw(opened, address):
    opened.goto(address)
    draw_charts(opened)


def check_colours(opened, path):
    """Check that texts are legible, and that none in a chart has SVG's default black."""
    if "/evaluations/" not in path:  # thousands of texts, which test_browser_barriers.py checks
        assert opened.evaluate(CONTRAST) == [], path
    fills = opened.evaluate(
        "[...document.querySelectorAll('.chart svg text')].map((text) => getComputedStyle(text).fill)"
    )
    assert fills, path
    assert [fill for fill in fills if fill == "rgb(0, 0, 0)"] == [], path


def test_every_chart_is_drawn_without_breaking_the_content_policy(chromium, drawn_address):
    base, outputs = drawn_address
    with page(chromium, color_scheme="light") as opened:
        opened.add_init_script(VIOLATIONS)
        for path, charts in paths(outputs).items():
            draw(opened, base + path)
            figures = opened.locator("figure[data-chart=drawn]")
            assert figures.count() == charts, path
            for number in range(charts):
                assert figures.nth(number).locator(MARKS).count() > 3, path
            check_colours(opened, path)
            assert opened.evaluate("window.violations") == [], path


def test_charts_fit_a_narrow_screen_and_stay_visible_in_the_dark(chromium, drawn_address):
    base, outputs = drawn_address
    with page(chromium, viewport={"width": 390, "height": 800}, color_scheme="dark") as opened:
        for path in paths(outputs):
            draw(opened, base + path)
            assert opened.evaluate("document.documentElement.scrollWidth") <= 390, path
            grown = opened.evaluate(
                """() => [...document.querySelectorAll('figure[data-chart]')].map((figure) =>
                  figure.querySelector('.chart').clientHeight - JSON.parse(figure.querySelector('script').text).height)"""
            )
            assert set(grown) == {0}, path
            cut = opened.evaluate(
                """() => [...document.querySelectorAll('.chart svg')].flatMap((svg) => {
                  const frame = svg.getBoundingClientRect();
                  return [...svg.querySelectorAll('text')].filter((text) => {
                    const box = text.getBoundingClientRect();
                    const outside = box.left < frame.left - 1 || box.right > frame.right + 1
                      || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
                    return text.textContent && (outside || text.textContent.endsWith('…'));
                  }).map((text) => text.textContent);
                })"""
            )
            assert cut == [], path
            check_colours(opened, path)


def test_without_scripts_the_tables_stand_for_the_charts(chromium, drawn_address):
    base, outputs = drawn_address
    with page(chromium, java_script_enabled=False) as opened:
        for path, charts in paths(outputs).items():
            opened.goto(base + path)
            figures = opened.locator("figure[data-chart]")
            assert figures.count() == charts
            for number in range(charts):
                figures.nth(number).locator("summary").first.click()
                expect(figures.nth(number).locator("table").first).to_be_visible()
            assert opened.locator(".chart svg").count() == 0


def test_a_chart_that_arrives_without_a_reload_is_drawn_as_well(chromium, drawn_address):
    base, _ = drawn_address
    with page(chromium) as opened:
        draw(opened, base + "/benchmarks/mixed/answer-moving?per_page=2")
        opened.evaluate("window.stayed = true")
        opened.locator("[data-key=next]").click()
        opened.wait_for_url("**page=2**")
        expect(opened.locator("figure[data-chart=drawn]")).to_have_count(1)
        expect(opened.locator(".chart svg").get_by_text("steady · hybrid").first).to_be_visible()
        assert opened.evaluate("window.stayed")


def test_a_chart_is_drawn_in_view_or_its_table_opens(chromium, drawn_address):
    base, outputs = drawn_address
    with closing(chromium.new_page(viewport={"width": 800, "height": 200})) as opened:
        requests = []
        opened.route("**/vega-lite.min.js*", lambda route: requests.append(route.request.url) or route.abort())
        address = f"{base}/evaluations/{outputs.evaluations['leaning', 'adversarial', 'symbols']}"
        opened.goto(address, wait_until="networkidle")
        assert (opened.locator("figure[data-chart=waiting]").count(), requests) == (3, [])
        opened.locator("figure[data-chart=waiting]").last.scroll_into_view_if_needed()
        expect(opened.locator("figure[data-chart=failed] table").last).to_be_visible()


def test_points_drawn_by_the_server_are_keyboard_links_with_numbers(chromium, drawn_address):
    base, _ = drawn_address
    phone = {"viewport": {"width": 390, "height": 800}, "color_scheme": "dark", "java_script_enabled": False}
    with page(chromium, **phone) as opened:
        opened.goto(base + "/boards/order")
        opened.get_by_role("link", name="Skip the 2 points").focus()
        opened.keyboard.press("Tab")
        point = opened.locator(".scatter a").first
        expect(point).to_be_focused()
        expect(opened.locator(".tip:visible")).to_have_count(1)
        expect(opened.locator(".tip:visible .who")).to_have_text("steady")
        # Nothing is cut off, and nothing has SVG's default black.
        frame = opened.locator(".scatter").bounding_box()
        for text in opened.locator(".scatter text:visible").all():
            box = text.bounding_box()
            assert frame["x"] - 1 <= box["x"]
            assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 1
            assert text.evaluate("(text) => getComputedStyle(text).fill") != "rgb(0, 0, 0)"
        opened.keyboard.press("Enter")
        opened.wait_for_url("**/models/steady")
