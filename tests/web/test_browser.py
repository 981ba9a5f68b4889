"""What only a browser can tell: scripts under the policy, layout, keyboard, and pages without scripts."""

import threading
from contextlib import contextmanager

import pytest
from playwright.sync_api import expect, sync_playwright
from werkzeug.serving import make_server


@pytest.fixture
def address(sqlite_site):
    """A seeded server."""
    server = make_server("127.0.0.1", 0, sqlite_site.client.application, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.port}", sqlite_site.seeded
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def page(chromium, **options):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        opened = browser.new_page(**options)
        complaints = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        yield opened
        browser.close()
    assert complaints == []


def models(opened):
    return [name.strip() for name in opened.locator(".board tbody th[scope=row] > a").all_inner_texts()]


def test_sorting_and_filtering_need_no_reload_and_keep_address_and_focus(chromium, address):
    base, _ = address
    with page(chromium) as opened:
        opened.goto(f"{base}/?benchmark=capitals")
        opened.evaluate("window.stayed = true")
        assert models(opened)[0] == "alpha"
        opened.locator("[data-key=sort-fluctuation_rate]").focus()
        opened.keyboard.press("Enter")
        opened.wait_for_url("**sort=fluctuation_rate**")
        opened.locator("[data-key=sort-fluctuation_rate]").click()
        opened.wait_for_url("**order=desc**")
        opened.wait_for_selector("th[aria-sort=descending] [data-key=sort-fluctuation_rate]:focus")
        assert models(opened)[0] == "delta"
        opened.select_option("[name=benchmark]", "hostile")
        opened.wait_for_url("**benchmark=hostile**")
        expect(opened.locator(".board tbody th[scope=row]")).to_have_count(1)
        assert opened.evaluate("window.stayed")
        assert "sort=fluctuation_rate" in opened.url


def test_everything_sorts_and_filters_without_scripts(chromium, address):
    base, _ = address
    with page(chromium, java_script_enabled=False) as opened:
        opened.goto(base)
        opened.select_option("[name=benchmark]", "capitals")
        opened.get_by_role("button", name="Show").click()
        opened.get_by_role("link", name="Fluctuation rate").first.click()
        opened.get_by_role("link", name="Fluctuation rate").first.click()
        assert models(opened)[0] == "delta"


def test_progress_moves_without_a_reload(chromium, address):
    base, seeded = address
    with page(chromium) as opened:
        opened.goto(f"{base}/evaluations/{seeded.evaluations['slow']}")
        opened.evaluate("document.querySelector('[data-field=prompts_done]').textContent = '?'")
        expect(opened.locator("[data-field=prompts_done]")).to_have_text("16")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_page_is_wider_than_its_window(chromium, address, width):
    base, seeded = address
    paths = (
        "/",
        "/?group=no",
        "/models/alpha",
        "/benchmarks/hostile",
        f"/evaluations/{seeded.evaluations['hostile']}",
        f"/evaluations/{seeded.evaluations['delta']}/questions/{seeded.questions['q7']}",
        f"/questions/{seeded.questions['q7']}",
        "/queue",
        "/metrics-guide",
    )
    with page(chromium, viewport={"width": width, "height": 800}) as opened:
        for path in paths:
            opened.goto(base + path)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width, path


def test_the_first_tab_stop_skips_to_the_content(chromium, address):
    base, _ = address
    with page(chromium) as opened:
        opened.goto(base)
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.textContent") == "Skip to content"
        opened.keyboard.press("Enter")
        expect(opened.locator("main")).to_be_focused()


# Text against its ground must reach 4.5 : 1 (WCAG 2.2, 1.4.3), whatever the scheme.
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(chromium, address, scheme):
    base, seeded = address
    paths = (
        "/",
        f"/evaluations/{seeded.evaluations['slow']}?only=unscored",
        f"/evaluations/{seeded.evaluations['delta']}/questions/{seeded.questions['q7']}",
        "/queue",
        "/metrics-guide",
    )
    with page(chromium, color_scheme=scheme) as opened:
        for path in paths:
            opened.goto(base + path)
            assert opened.evaluate(CONTRAST) == [], path
