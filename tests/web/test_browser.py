"""Checks that need a browser: scripts under the policy, layout, keyboard, and pages without scripts."""

import threading
from contextlib import closing, contextmanager

import pytest
from playwright.sync_api import expect
from werkzeug.serving import make_server

from tests.support.commands import PATIENCE_S
from tests.web.test_boards import load


@contextmanager
def running(server):
    """Run a server, which is closed at the end, so that its port is free again."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def serve(application):
    """Return the address of a server of the application."""
    return running(make_server("127.0.0.1", 0, application, threaded=True))


def draw_charts(opened):
    """Draw all charts of the page, as before printing, and wait for them."""
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(opened.locator("figure[data-chart]:not([data-chart=drawn])")).to_have_count(0)


@pytest.fixture
def address(sqlite_site):
    """Yield a seeded server."""
    with serve(sqlite_site.client.application) as base:
        yield base, sqlite_site.seeded


@contextmanager
def page(chromium, *, errors=False, **options):
    """Yield a new tab, which must report no errors.

    errors: whether pages that answer with an error are expected.
    """
    with closing(chromium.new_page(**options)) as opened:
        opened.set_default_timeout(1000 * PATIENCE_S)  # a machine may be busy
        complaints = []
        opened.on("console", lambda message: complaints.append(message.text))
        opened.on("pageerror", lambda error: complaints.append(str(error)))
        yield opened
    if errors:
        complaints = [text for text in complaints if not text.startswith("Failed to load resource: the server")]
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


@pytest.mark.one_engine
def test_a_tablet_leaves_out_a_boards_last_columns_and_names_them(chromium, own):
    names = ("accuracy", "average_accuracy", "worst_accuracy", "best_accuracy", "fluctuation_rate", "accuracy_variance")
    load(own, columns=tuple(f"{name}@cyclic" for name in names))
    with serve(own.client.application) as base, page(chromium) as opened:

        def shown(width, sort):
            opened.set_viewport_size({"width": width, "height": 900})
            opened.goto(f"{base}/boards/main?sort={sort}@cyclic")
            cells = opened.locator(".board tbody tr:first-child td.number[data-label]")
            drawing = opened.locator(".board td.drawn svg").first
            note = opened.locator(".spared")
            visible = [cell.get_attribute("data-label") for cell in cells.all() if cell.is_visible()]
            visible = [label for label in visible if label not in ("Unread", "Sealed")]
            return visible, drawing.bounding_box()["width"], note.inner_text() if note.is_visible() else None

        every, _, note = shown(1440, "accuracy")
        assert (len(every), note) == (6, None)
        few, wide, note = shown(768, "accuracy")
        assert few == every[:3]
        assert note == "Not shown at this width: best accuracy, fluctuation rate, variance of accuracy."
        assert wide >= 240
        few, wide, note = shown(768, "accuracy_variance")
        assert few == [*every[:3], every[5]]
        assert note == "Not shown at this width: best accuracy, fluctuation rate."
        assert wide >= 240
        assert shown(390, "accuracy")[0] == every


@pytest.mark.parametrize("width", [740, 768, 1024, 1100])
def test_on_tablets_a_drawing_of_the_leaderboard_has_240_pixels(chromium, address, width):
    base, _ = address
    with page(chromium, viewport={"width": width, "height": 900}) as opened:
        opened.goto(base)
        assert opened.locator(".board td.drawn svg").first.bounding_box()["width"] >= 240
        assert opened.locator(".spared").first.inner_text().startswith("Not shown at this width: ")
        beyond = opened.locator(".tall").first.evaluate("(part) => part.scrollWidth - part.clientWidth")
        assert beyond <= 1


def test_the_leaderboard_is_compact_with_sticky_headings_and_details_on_focus(chromium, address):
    base, seeded = address
    with page(chromium, viewport={"width": 1440, "height": 900}) as opened:
        columns = "cora,accuracy,worst_accuracy,average_accuracy,best_accuracy,fluctuation_rate,brier_score,entropy"
        opened.goto(f"{base}/?metrics={columns}&pin=accuracy")
        heights = opened.evaluate(
            "[...document.querySelectorAll('.board tbody tr[data-row]')].map((row) => row.getBoundingClientRect().height)"
        )
        assert len(heights) == 6
        assert max(heights[:4]) <= 44
        assert max(heights) <= 62  # with three small lines: cannot be distinguished from guessing
        region = opened.locator(".tall")
        region.evaluate("(part) => { part.style.width = '700px'; part.style.height = '150px'; }")
        sticky = [opened.locator(where).first for where in ("th.model", "tr[data-row] th", "td.pin")]
        before = [part.bounding_box() for part in sticky]
        region.evaluate("(part) => part.scrollTo(300, 100)")
        after = [part.bounding_box() for part in sticky]
        assert [one["x"] for one in after] == [one["x"] for one in before]
        assert after[0]["y"] == before[0]["y"]
        assert after[1]["y"] < before[1]["y"]
        # A row and its point in the chart are highlighted together, also with the keyboard.
        number = seeded.evaluations["delta"]
        row, point = opened.locator(f"tr[data-row='{number}']"), opened.locator(f".scatter [data-row='{number}']")
        row.locator("td.number a").first.focus()
        expect(point).to_have_class("lit")
        opened.locator(f".scatter [data-row='{seeded.evaluations['alpha']}']").hover()
        expect(opened.locator(f"tr[data-row='{seeded.evaluations['alpha']}']")).to_have_class("lit")
        expect(point).not_to_have_class("lit")
        row.locator("input").check()
        opened.locator(f"tr[data-row='{seeded.evaluations['beta']}'] input").check()
        opened.get_by_role("button", name="Compare 2 models").click()
        opened.wait_for_url("**/compare?**")
        assert "model=beta&model=delta" in opened.url
        opened.set_viewport_size({"width": 390, "height": 844})
        opened.goto(base)
        card = opened.locator("tr[data-row]").first.bounding_box()
        assert card["y"] + card["height"] < 844


def test_the_menu_of_benchmarks_is_whole_on_a_phone(chromium, address):
    base, _ = address
    with page(chromium, viewport={"width": 390, "height": 844}) as opened:
        opened.goto(base)
        menu = opened.locator("select[name=benchmark]")
        wide = menu.bounding_box()["width"]
        # A select without a width is as wide as its longest option.
        menu.evaluate("(part) => { part.style.width = 'auto'; part.replaceChildren(part.options[0]); }")
        assert menu.bounding_box()["width"] <= wide


def test_progress_moves_without_a_reload(chromium, address):
    base, seeded = address
    with page(chromium) as opened:
        opened.goto(f"{base}/evaluations/{seeded.evaluations['slow']}")
        for field in ("prompts_done", "prompts", "shards"):
            opened.evaluate("name => document.querySelector(`[data-field=${name}]`).textContent = '?'", field)
        expect(opened.locator("[data-field=prompts_done]")).to_have_text("16")
        for field in ("prompts", "shards"):
            expect(opened.locator(f"[data-field={field}]")).not_to_have_text("?")


def test_on_a_phone_an_evaluation_shows_charts_and_question_cards(chromium, address):
    base, seeded = address
    with page(chromium, viewport={"width": 1440, "height": 900}) as opened:
        opened.goto(f"{base}/evaluations/{seeded.evaluations['beta']}")
        expect(opened.locator("#charts figure[data-chart=drawn]")).to_have_count(2)
        for chart in opened.locator("#charts figure").all():
            assert chart.locator(".chart").bounding_box()["y"] < 700
        opened.set_viewport_size({"width": 390, "height": 800})
        for cell in opened.locator("table.cardlike tbody tr").first.locator("> *").all():
            box = cell.bounding_box()
            assert 0 <= box["x"] < box["x"] + box["width"] <= 390


def test_keys_lead_from_one_question_that_flips_to_the_next(chromium, address):
    base, seeded = address
    first, second = (f"**/questions/{seeded.questions[name]}" for name in ("q7", "q8"))
    with page(chromium) as opened:
        opened.goto(f"{base}/evaluations/{seeded.evaluations['beta']}/questions/{seeded.questions['q1']}")
        opened.keyboard.press("n")
        opened.wait_for_url(first)
        expect(opened.locator("#announcer")).to_have_text("Question q7")
        opened.keyboard.press("j")
        opened.wait_for_url(second)
        expect(opened.locator("#announcer")).to_have_text("Question q8")
        opened.keyboard.press("n")
        expect(opened.locator("#announcer")).to_have_text("No later question flips")
        opened.keyboard.press("p")
        opened.wait_for_url(first)
        # A single key must do nothing in a text field, and can be turned off (WCAG 2.2, 2.1.4).
        opened.evaluate("document.querySelector('main').append(document.createElement('input'))")
        opened.locator("main input").press("n")
        opened.get_by_role("button", name="Keys on").click()
        opened.keyboard.press("n")
        assert opened.url.endswith(f"/{seeded.questions['q7']}")
        opened.reload()
        expect(opened.get_by_role("button", name="Keys off")).to_be_visible()


def test_the_first_tab_stop_skips_to_the_content(chromium, address):
    base, _ = address
    with page(chromium) as opened:
        opened.goto(base)
        opened.keyboard.press("Tab")
        assert opened.evaluate("document.activeElement.textContent") == "Skip to content"
        opened.keyboard.press("Enter")
        expect(opened.locator("main")).to_be_focused()


GROUND = "getComputedStyle(document.body).backgroundColor"


def ground(opened):
    """Return the background colour of the page once it has loaded, since submitting a form loads it again."""
    opened.wait_for_load_state()
    return opened.evaluate(GROUND)


def test_menu_keys_and_chosen_colours_work_with_scripts_and_without(chromium, address):
    base, _ = address
    with page(chromium, color_scheme="light") as opened:
        opened.goto(f"{base}/models?q=a")
        light = ground(opened)
        opened.locator(".menu summary").press("Enter")
        expect(opened.locator(".sheet [aria-current=page]")).to_have_text("Models")
        opened.get_by_role("button", name="Dark").click()
        expect(opened.locator("[data-theme=dark]")).to_have_count(1)
        dark = ground(opened)
        opened.keyboard.press("Escape")
        expect(opened.locator(".menu summary")).to_be_focused()
        expect(opened.locator(".sheet")).to_be_hidden()
        opened.reload()
        assert ground(opened) == dark != light
    with page(chromium, color_scheme="dark", java_script_enabled=False) as opened:
        opened.goto(f"{base}/models?q=a")
        assert ground(opened) == dark
        opened.locator(".menu summary").click()
        opened.get_by_role("button", name="Light").click()
        assert opened.url == f"{base}/models?q=a"
        assert ground(opened) == light


@pytest.mark.long
def test_a_request_of_the_reference_is_tried_in_place(chromium, address):
    base, _ = address
    with page(chromium, errors=True) as opened:
        opened.goto(f"{base}/api")
        operation = opened.locator("#operations-registry-model")
        operation.locator("button.opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
        for name, status in (("alpha", "200"), ("nobody", "404")):
            operation.get_by_placeholder("model").fill(name)
            operation.get_by_role("button", name="Execute").click()
            expect(operation.locator(".live-responses-table td.response-col_status:not(.col_header)")).to_contain_text(
                status
            )
