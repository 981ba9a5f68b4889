"""Every page at four widths: nothing is wider than the window, the header has one line, no text is cut off.

Two registries: an empty one, and one with 250 generated models, a third of them with names of 90 characters,
with imported outputs, whose pages have charts. Colours change no size; test_browser_barriers.py checks them.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from flask import Flask
from playwright.sync_api import expect
from sqlalchemy import Engine, select

from bench.generate_registry import Size
from bench.generate_registry import fill as generate
from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.store import import_board, import_suite
from registry.boards.submissions import ModelRequest, request_submission
from registry.db import get_engine, read_session, write_session
from registry.people.accounts import find_account, viewer_of_account
from registry.settings import Settings
from registry.sql.files import Files
from registry.tables import BoardSnapshot, Evaluation, Model, Question
from tests.support.surface import PAGES
from tests.web.accounts import PASSWORD, add_account
from tests.web.outputs import BOARD, Outputs
from tests.web.outputs import fill as import_outputs
from tests.web.test_browser import draw_charts, page, serve
from web import create_app

WIDTHS = (390, 768, 1440, 2560)
HEIGHTS = {390: 844}
A4 = 703
"""Width between the margins of a printed page in pixels: 186 mm."""
ADMIN = "an-administrator-whose-name-is-as-long-as-some-are.and-then-a-little-longer-than-that"
LONG = "an-organisation-with-a-long-name.a-model-of-90-characters-as-some-merges-of-models-have-"


@dataclass(frozen=True)
class Population:
    """An application, and its pages: rule → addresses."""

    application: Flask
    pages: dict[str, list[str]] = field(default_factory=dict)


def with_admin(engine: Engine, folder: Path) -> Flask:
    add_account(engine, ADMIN, "admin")
    settings = Settings(home=folder, rate_limits=False)
    return create_app(settings, database_url=engine.url.render_as_string(hide_password=False))


@pytest.fixture(scope="session")
def full(lasting_postgresql, tmp_path_factory) -> Iterator[Population]:
    engine, folder = get_engine(lasting_postgresql()), tmp_path_factory.mktemp("full")
    generated = generate(engine, folder, Size(models=250, benchmarks=1, predictions=24 * 4))
    with write_session(engine) as session:
        for model in session.scalars(select(Model).where(Model.id % 3 == 0)):
            model.name = LONG[: 90 - len(model.name)] + model.name
        suite = {"name": "core", "tasks": [{"benchmark": generated.benchmark}], "variants": ["cyclic"]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        columns = ("accuracy@cyclic", "worst_accuracy@cyclic")
        import_board(session, BoardDefinition(name="generated", suite="core", columns=columns))
    outputs = import_outputs(engine, folder)
    application = with_admin(engine, folder)
    with write_session(engine) as session:
        admin = viewer_of_account(find_account(session, ADMIN))
        request = ModelRequest(hub=f"owner/{LONG[:87]}")
        submission, _ = request_submission(session, session, admin, request, "core", "", Settings(home=folder))
        submission_id = submission.id
    Files(engine, Settings(home=folder)).write("all")  # so that its SQL page answers queries
    yield Population(application, pages_of(engine, outputs, submission_id, generated.explored_evaluation_id))
    for thread in threading.enumerate():
        if thread.name == "sql files":  # its database goes next
            thread.join()


def pages_of(engine: Engine, outputs: Outputs, submission_id: int, explored: int) -> dict[str, list[str]]:
    """Return at least one address for every rule of a page."""
    evaluations = outputs.evaluations
    cyclic, adversarial = evaluations["leaning", "cyclic", "symbols"], evaluations["leaning", "adversarial", "symbols"]
    with read_session(engine) as session:
        names = session.scalars(select(Model.name).order_by(Model.id).limit(3)).all()
        digest = session.scalars(select(BoardSnapshot.digest).where(BoardSnapshot.board.has(name=BOARD))).first()
        generated = session.scalars(select(Evaluation.id).order_by(Evaluation.id).limit(3)).all()
        question = session.scalars(select(Question.id).order_by(Question.id.desc())).first()
    (long,) = (name for name in names if len(name) == 90)
    question_id = outputs.questions["m4"]
    compared = f"left={generated[0]}&right={generated[2]}"
    return {
        "/": [
            "/",
            "/?group=no",
            "/?benchmark=mixed&subject=odd",
            "/?q=nothing-of-this-name",
            "/?sort=nonsense",
        ],
        "/account": ["/account"],
        "/accounts": ["/accounts"],
        "/accounts/<name>": [f"/accounts/{ADMIN}"],
        "/api": ["/api"],
        "/audit": ["/audit"],
        "/benchmarks": ["/benchmarks"],
        "/benchmarks/<benchmark>": ["/benchmarks/mixed"],
        "/benchmarks/<benchmark>/answer-moving": ["/benchmarks/mixed/answer-moving"],
        "/boards": ["/boards"],
        "/boards/<name>": ["/boards/generated"],
        "/boards/<name>/own": ["/boards/generated/own"],
        "/boards/<name>/pairs": ["/boards/generated/pairs"],
        "/boards/<name>/trade-offs": ["/boards/generated/trade-offs"],
        "/chain": ["/chain"],
        "/proof": ["/proof"],
        "/compare": ["/compare", f"/compare?{compared}", "/compare?left=leaning&right=steady&benchmark=mixed"],
        "/evaluations/<evaluation_id>": [
            f"/evaluations/{shown}" for shown in (generated[2], explored, cyclic, adversarial, outputs.parted)
        ],
        "/evaluations/<evaluation_id>/provenance": [f"/evaluations/{cyclic}/provenance"],
        "/evaluations/<evaluation_id>/questions/<question_id>": [f"/evaluations/{cyclic}/questions/{question_id}"],
        "/metrics-guide": ["/metrics-guide"],
        "/models": ["/models"],
        "/models/<model>": ["/models/leaning", f"/models/{long}"],
        "/overview": ["/overview"],
        "/protocol": ["/protocol"],
        "/questions/<question_id>": [f"/questions/{question_id}", f"/questions/{question}"],
        "/queue": ["/queue"],
        "/sign-in": ["/sign-in"],
        "/snapshots/<digest>": [f"/snapshots/{digest}"],
        "/sql": ["/sql", "/sql?q=SELECT%20*%20FROM%20leaderboard"],
        "/sql/<slug>": ["/sql/nothing"],
        "/submissions": ["/submissions"],
        "/submissions/<submission_id>": [f"/submissions/{submission_id}"],
        "/submit": ["/submit"],
        "/withdrawn": ["/withdrawn", "/nowhere"],
    }


@pytest.fixture
def empty(sqlite_database, tmp_path) -> Population:
    application = with_admin(get_engine(sqlite_database), tmp_path)
    return Population(application, {rule: [rule] for rule in PAGES if "<" not in rule})


MEASURE = """
() => {
  const found = [], named = (one) => `${one.outerHTML.slice(0, 90)}… in ${one.parentElement.className || one.parentElement.tagName}`;
  const room = document.documentElement.clientWidth, wide = document.documentElement.scrollWidth;
  if (wide > room) {
    const past = [...document.body.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > room + 1);
    found.push(`${wide} px wide: ${past.slice(0, 3).map(named).join("; ")}`);
  }
  const header = document.querySelector("header.top").offsetHeight;
  if (header > 60) found.push(`a header of ${header} px`);
  // What is folded away is left alone: asking for its size would lay it out, element by element.
  for (const one of document.body.querySelectorAll("*")) {
    if (!(one instanceof HTMLElement) || !one.checkVisibility()) continue;
    const across = one.scrollWidth - one.clientWidth, down = one.scrollHeight - one.clientHeight;
    if (one.clientWidth <= 1 || (across <= 1 && down <= 2)) continue;
    const style = getComputedStyle(one), hides = (overflow) => overflow === "hidden" || overflow === "clip";
    const cut = (across > 1 && hides(style.overflowX)) || (down > 2 && hides(style.overflowY));
    if (cut && one.textContent.trim() && !one.closest("[title]")) found.push(`cut off: ${named(one)}`);
  }
  return found;
}
"""


PLANTED = """
() => {
  document.querySelector("header.top").style.height = "90px";
  const wide = document.createElement("div"), cut = document.createElement("p");
  Object.assign(wide.style, { width: "3000px", height: "1px" });
  cut.textContent = "Far too long for where it stands";
  Object.assign(cut.style, { width: "3rem", overflow: "hidden", whiteSpace: "nowrap" });
  document.body.append(wide, cut);
}
"""


@contextmanager
def signed_in(chromium, application, **options):
    """Yield a tab in which the admin has signed in through the link on a page that requires it."""
    with serve(application) as base, page(chromium, errors=True, **options) as opened:
        opened.goto(f"{base}/account")
        opened.locator("main").get_by_role("link", name="Sign in").click()
        opened.get_by_label("Name").fill(ADMIN)
        opened.get_by_label("Password").fill(PASSWORD)
        opened.get_by_role("button", name="Sign in").click()
        expect(opened.locator("h1")).to_have_text(ADMIN)
        assert opened.url == f"{base}/account"
        yield opened, base


@pytest.mark.long
@pytest.mark.parametrize("population", ["full", "empty"])
def test_no_page_overflows_or_cuts_text_off_at_any_width(chromium, population, request):
    problems = {}
    site = request.getfixturevalue(population)
    rules = {rule for rule in PAGES if population == "full" or "<" not in rule}
    assert set(site.pages) == rules, "give each an address"
    with signed_in(chromium, site.application) as (opened, base):
        for address in [address for addresses in site.pages.values() for address in addresses]:
            opened.goto(base + address)
            draw_charts(opened)
            for width in WIDTHS if population == "full" else WIDTHS[:1]:
                opened.set_viewport_size({"width": width, "height": HEIGHTS.get(width, 900)})
                if measured := opened.evaluate(MEASURE):
                    problems[re.sub(re.escape(LONG), "LONG-", address), width] = measured
        opened.emulate_media(media="print")
        opened.set_viewport_size({"width": A4, "height": 1000})
        for rule in {"/", "/overview", "/boards/<name>", "/evaluations/<evaluation_id>"} & set(site.pages):
            for address in site.pages[rule]:
                opened.goto(base + address)
                draw_charts(opened)
                if (wide := opened.evaluate("document.documentElement.scrollWidth")) > A4:
                    problems[address, "A4"] = [f"{wide} px wide on paper of {A4} px"]
        opened.emulate_media(media="screen")
        opened.evaluate(PLANTED)
        planted = [what.partition(":")[0] for what in opened.evaluate(MEASURE)]
        assert planted == ["3000 px wide", "a header of 90 px", "cut off"], "what is planted is found"
    assert problems == {}


MODEL_ROWS = """
() => [...document.querySelectorAll("main tbody tr")]
  .filter((row) => row.querySelector("th[scope=row] a") && row.checkVisibility())
  .map((row) => [row.querySelector("th[scope=row] a").getBoundingClientRect().bottom, row.getBoundingClientRect().bottom])
"""


@pytest.mark.long
def test_models_stand_above_the_fold_and_their_columns_fit_a_tablet(chromium, full):
    with serve(full.application) as base, page(chromium) as opened:
        for address in ("/", "/boards/generated"):
            opened.set_viewport_size({"width": 1440, "height": 900})
            opened.goto(base + address)
            rows = opened.evaluate(MODEL_ROWS)
            assert sum(bottom <= 900 for _, bottom in rows) >= 10, address
            opened.set_viewport_size({"width": 768, "height": 1024})
            beyond = opened.evaluate(
                "(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)(document.querySelector('.tall'))"
            )
            assert beyond <= 1, address
            opened.set_viewport_size({"width": 390, "height": 844})
            assert opened.evaluate(MODEL_ROWS)[0][0] <= 844, address
