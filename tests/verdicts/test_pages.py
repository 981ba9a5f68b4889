"""Sentences on pages and in the terminal about answers that were described wrongly in the past."""

import json
import random
import re
from collections.abc import Callable, Sequence
from html import unescape
from typing import Any

import pytest

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, parse_variants
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard
from tests.web.conftest import Site
from tests.web.seed import Seeded
from web import create_app

pytestmark = pytest.mark.one_engine

QUESTIONS = four_options(100)
SAMPLING = "select-letter"
GREEDY = "select-letter-greedy"
ORDERS = [(0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2), (3, 2, 1, 0), (1, 0, 3, 2)]


def words(html: str) -> str:
    """Return the text of a page, without the menus."""
    text = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", html.partition("<main")[2], flags=re.DOTALL)
    return " ".join(unescape(text).replace("\u202f", " ").split())


def line(question: dict[str, Any], variant: int, order: Sequence[int], option: int | None) -> dict[str, Any]:
    position = None if option is None else order.index(option)
    return {"question_id": question["id"], "variant": variant, "order": list(order), "position": position}


def often_right(seed: str, share: float) -> Callable[[dict[str, Any]], int]:
    """Return a model that is right with this probability, drawn anew each time."""
    draw = random.Random(seed)

    def option(question: dict[str, Any]) -> int:
        return question["answer"] if draw.random() < share else (question["answer"] + 1) % 4

    return option


def make_lines(kind: str, option: Callable[[dict[str, Any]], int | None]) -> list[dict[str, Any]]:
    """Return a line for each prompt of a kind of variants."""
    return [
        line(question, variant.ordinal, variant.order, option(question))
        for question in QUESTIONS
        for variant in parse_variants(kind).variants(QuestionShape(question["id"], 4, question["answer"]))
    ]


def in_orders(orders: Sequence[Sequence[int]], option: Callable[[dict[str, Any]], int | None]) -> list[dict[str, Any]]:
    """Return a line for each of these orders, as another program records them."""
    return [
        line(question, variant, order, option(question))
        for question in QUESTIONS
        for variant, order in enumerate(orders)
    ]


ASKED: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "sampling": ("cyclic", SAMPLING, make_lines("cyclic", often_right("a", 0.9))),
    "repeats": ("imported", SAMPLING, in_orders([ORDERS[0]] * 11, often_right("b", 0.9))),
    "unread": ("cyclic", GREEDY, make_lines("cyclic", lambda _: None)),
    "half-read": ("cyclic", GREEDY, make_lines("cyclic", lambda q: None if int(q["id"][1:]) % 5 == 0 else q["answer"])),
    "cloze": (
        "cyclic",
        "cloze",
        make_lines("cyclic", lambda q: q["answer"] if int(q["id"][1:]) % 2 else (q["answer"] + 1) % 4),
    ),
    "leaning": ("cyclic", GREEDY, make_lines("cyclic", lambda q: q["answer"])),
    "tied": (
        "cyclic",
        "symbols",
        [
            {"logprobs": [-1.0] * 4, **item}
            for item in make_lines("cyclic", lambda _: 0)
            if item.pop("position") in range(4)
        ],
    ),
    "letters": ("cyclic", "symbols", make_lines("cyclic", often_right("c", 0.6))),
    "mixed": ("imported", SAMPLING, in_orders([*ORDERS, *[ORDERS[0]] * 11], often_right("d", 0.95))),
    "plain": ("imported", SAMPLING, in_orders(ORDERS, often_right("e", 0.9))),
    "twice": (
        "imported",
        SAMPLING,
        in_orders([order for order in ORDERS[:4] for _ in range(2)], often_right("f", 0.8)),
    ),
}
MODEL = {"mixed": "one", "plain": "one"}


@pytest.fixture(scope="module")
def site(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a site with the evaluations of `ASKED`, and a board of imported ones."""
    registry = Registry(lasting_sqlite(), tmp_path_factory.mktemp("pages"))
    registry.benchmark("four", QUESTIONS)
    seeded = Seeded()
    for name in dict.fromkeys(MODEL.get(name, name) for name in ASKED):
        registry.model(name)
    # The mixed set comes last: the newest must not represent its model.
    for name, (kind, protocol, lines) in sorted(ASKED.items(), key=lambda item: item[0] == "mixed"):
        path = registry.file(f"{name}.jsonl", [json.dumps(item) for item in lines])
        request = ImportRequest(path, MODEL.get(name, name), "four", kind, protocol)
        seeded.evaluations[name] = import_outputs(registry.engine, request)
    with write_session(registry.engine) as session:
        tasks = [{"benchmark": "four", "variants": ["imported"], "protocols": [SAMPLING]}]
        import_suite(session, SuiteDefinition.model_validate({"name": "records", "tasks": tasks}))
        columns = ("accuracy@imported", "worst_accuracy@imported")
        import_board(session, BoardDefinition(name="records", suite="records", columns=columns))
    refresh_boards(registry.engine)
    return Site(registry.engine, seeded, create_app(database_url=registry.url).test_client())


def page(site: Site, name: str) -> str:
    return words(site.client.get(f"/evaluations/{site.seeded.evaluations[name]}").text)


BLAME = re.compile(r"does not hold|holds in every|lost by changing|changes with|costs")


def test_a_model_that_samples_loses_nothing_to_the_order(site):
    text = page(site, "sampling")
    assert "Chance may be part of what changes here: its answers are sampled, and no prompt was repeated." in text
    assert not BLAME.search(text)
    model = words(site.client.get("/models/sampling").text)
    assert "four: Chance may be part of what changes here" in model
    assert not BLAME.search(model)
    assert "sampling answers" not in words(site.client.get("/").text)
    board = words(site.client.get("/?chart=order&model=sampling").text)
    assert "No point for sampling: Chance may be part of its worst accuracy" in board


def test_repeats_of_one_prompt_say_nothing_about_orders(site):
    text = page(site, "repeats")
    assert "11 repeats of one prompt, in one order: nothing is known about other orders." in text
    assert not BLAME.search(text)


def test_what_nobody_could_read_has_no_verdict_no_rank_and_no_point(site):
    text = page(site, "unread")
    assert "100.0 % of its answers are missing, so it has no verdict, no rank and no place in a chart." in text
    assert not BLAME.search(text)
    assert "More than half of its answers are missing on four" in words(site.client.get("/models/unread").text)
    rows = {
        (row["model"], row["variants"]): row
        for row in site.client.get("/api/v1/leaderboard?sort=accuracy").json["rows"]
    }
    assert rows["unread", "cyclic"]["rank"] is None
    assert rows["unread", "cyclic"]["not_ranked"]["reason"] == "More than half of its answers are missing"
    assert (
        "20.0 % of its answers are missing and count as wrong; of those that could be read, 100.0 % are right."
    ) in page(site, "half-read")
    done = shuffleboard("metrics", str(site.seeded.evaluations["unread"]), database_url=str(site.engine.url))
    assert "no verdict, no rank and no place in a chart" in done.stdout


def test_a_protocol_that_lists_no_options_has_tested_nothing_about_order(site):
    text = page(site, "cloze")
    assert "Its protocol does not list the options, so no order was shown: nothing is known about other orders." in text
    assert not BLAME.search(text)
    assert "Two answers to one prompt differ in 0.0 % of pairs." in text
    board = words(site.client.get("/?chart=order").text)
    assert re.search(r"No point for [^:]*cloze[^:]*: Its protocol does not list the options", board)
    (row,) = [row for row in site.client.get("/api/v1/leaderboard").json["rows"] if row["model"] == "cloze"]
    assert (row["accuracy"], row["asked"]) == (0.5, "asked without listing the options")
    assert [row[name] for name in ("worst_accuracy", "fluctuation_rate", "score", "order_loss")] == [None] * 4
    done = shuffleboard("metrics", str(site.seeded.evaluations["cloze"]), database_url=str(site.engine.url))
    assert "asked without listing the options" in done.stdout


def test_tied_answers_say_nothing_about_positions_or_the_order(site):
    text = page(site, "tied")
    assert "In 100.0 % of its answers several options were equally probable and the first counts as chosen" in text
    assert not BLAME.search(text)
    assert "It chooses A more often" not in text


def test_letters_alone_do_not_say_that_nothing_was_sampled(site):
    assert "nothing says whether its answers were sampled" in page(site, "letters")
    assert not BLAME.search(page(site, "letters"))


def test_two_sets_of_one_model_are_no_two_ranks_under_one_name(site):
    ranks = [
        (row["evaluation_id"], row["rank"])
        for row in site.client.get("/api/v1/leaderboard?benchmark=four").json["rows"]
        if (row["model"], row["variants"]) == ("one", "imported")
    ]
    assert len(ranks) == 2
    assert "Questions by the share of their answers that are right" in page(site, "mixed")
    assert words(site.client.get("/").text).count("imported, some prompts repeated") == 1
    document = site.client.get("/api/v1/boards/records").json
    (row,) = [row for row in document["rows"] if row["model"] == "one"]
    assert row["evaluations"][0]["evaluation"] == site.seeded.evaluations["plain"]


def test_what_holds_in_every_order_is_still_said(site):
    assert "Its answers are the same in every order tried." in page(site, "leaning")
