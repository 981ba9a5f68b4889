"""Sentences about models that guess or have answers in one order only: page, JSON, CSV, command line."""

import csv
import io
import json
import random
import re
from collections.abc import Callable
from html import unescape

import pytest

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.leaderboard.rows import Ordering, complete_rows
from registry.leaderboard.selection import Selection
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.prompting.variants import QuestionShape, VariantShown
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard
from tests.web.conftest import Site
from tests.web.outputs import output_lines
from tests.web.seed import Seeded
from web import create_app, formats

pytestmark = pytest.mark.one_engine

FOUR = four_options(200)
TWO = [
    {"id": f"t{q}", "subject": None, "question": f"Is it {q}?", "options": ["yes", "no"], "answer": q % 2}
    for q in range(200)
]
COMMAND = "shuffleboard evaluations import FILE --model {} --benchmark four --variants cyclic"


def guessing(_shape: QuestionShape, variant: VariantShown, draw: random.Random) -> int:
    """Choose a random position."""
    return draw.randrange(len(variant.order))


def always_a(_shape: QuestionShape, _variant: VariantShown, _draw: random.Random) -> int:
    """Return the first position."""
    return 0


def knowing(share: int) -> Callable[[QuestionShape, VariantShown, random.Random], int]:
    """Return a model that is right on this percentage of questions in any order, and otherwise chooses a neighbour."""

    def answer(shape: QuestionShape, variant: VariantShown, _draw: random.Random) -> int:
        right = variant.order.index(shape.answer)
        knows_answer = int(shape.external_id[1:]) % 100 < share
        return right if knows_answer else (right + 1) % len(variant.order)

    return answer


def leaning(shape: QuestionShape, variant: VariantShown, draw: random.Random) -> int:
    """Choose the right option half of the time, drawn anew for each prompt."""
    return variant.order.index(shape.answer) if draw.random() < 0.5 else always_a(shape, variant, draw)


ASKED = (
    ("guesser", "four", "cyclic", guessing, FOUR),
    ("always-a", "four", "cyclic", always_a, FOUR),
    ("leaning", "four", "cyclic", leaning, FOUR),
    ("leaning", "two", "cyclic", leaning, TWO),
    ("knowing", "four", "cyclic", knowing(40), FOUR),
    ("knowing", "two", "cyclic", knowing(50), TWO),
    ("once", "four", "original", knowing(90), FOUR),
    ("again", "four", "original", knowing(80), FOUR),
    ("recorded", "four", "imported", knowing(90), FOUR),
)


@pytest.fixture(scope="module")
def site(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Return a site with the models of `ASKED`, and boards over cyclic and over recorded answers."""
    registry = Registry(lasting_sqlite(), tmp_path_factory.mktemp("said"))
    registry.benchmark("four", FOUR)
    registry.benchmark("two", TWO)
    for name in dict.fromkeys(model for model, *_ in ASKED):
        registry.model(name)
    for model, benchmark, variants, answer, questions in ASKED:
        lines = output_lines("original" if variants == "imported" else variants, answer, model, questions)
        path = registry.file("outputs.jsonl", lines)
        import_outputs(registry.engine, ImportRequest(path, model, benchmark, variants))
    with write_session(registry.engine) as session:
        for name, way in (("orders", "cyclic"), ("records", "imported")):
            tasks = [{"benchmark": "four", "variants": [way]}]
            import_suite(session, SuiteDefinition.model_validate({"name": name, "tasks": tasks}))
            columns = (f"accuracy@{way}", f"worst_accuracy@{way}")
            import_board(session, BoardDefinition(name=name, suite=name, columns=columns))
    refresh_boards(registry.engine)
    return Site(registry.engine, Seeded(), create_app(database_url=registry.url).test_client())


def words(html: str) -> str:
    """Return the text of a page, without the menus."""
    text = re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", html.partition("<main")[2], flags=re.DOTALL)
    return " ".join(unescape(text).replace("\u202f", " ").split())


def rows(site: Site, query: str = "") -> dict[tuple[str, str, str], dict]:
    shown = site.client.get(f"/api/v1/leaderboard{query}").json["rows"]
    return {(row["model"], row["benchmark"], row["variants"]): row for row in shown}


@pytest.mark.parametrize("model", ["guesser", "always-a"])
def test_a_model_that_guesses_is_said_to_and_is_in_no_headline(site, model):
    row = rows(site)[model, "four", "cyclic"]
    assert row["chance"] == 0.25
    low, high = row["intervals"]["accuracy"]
    assert low <= 0.25 <= high
    page = words(site.client.get(f"/evaluations/{row['evaluation_id']}").text)
    assert "Cannot be distinguished from guessing (25.0 %): " in page
    for address in (f"/evaluations/{row['evaluation_id']}", f"/models/{model}", "/boards/orders", "/"):
        assert "annot be distinguished from guessing" in words(site.client.get(address).text)
    top = words(site.client.get("/boards/orders").text.partition("<table")[0])
    assert model not in top


def test_evaluations_in_one_order_rank_by_accuracy_unless_alone(site):
    board = rows(site)
    for model, variants, rank in (("once", "original", 1), ("again", "original", 2), ("recorded", "imported", None)):
        row = board[model, "four", variants]
        assert (row["rank"], row["asked"], row["worst_accuracy"], row["cora"]) == (
            rank,
            "asked in one order",
            None,
            None,
        )
        assert row["ranked_by"] == "accuracy"
    assert board["once", "four", "original"]["not_ranked"] is None
    assert board["recorded", "four", "imported"]["not_ranked"] == {
        "reason": "Right in two orders needs two orders or more; asked in one order",
        "command": COMMAND.format("recorded"),
    }
    ranked = board["knowing", "four", "cyclic"]
    assert (ranked["not_ranked"], ranked["ranked_by"]) == (None, "right_twice_across_orders")
    assert rows(site, "?sort=accuracy")["once", "four", "original"]["rank"] == 1
    assert rows(site, "?sort=accuracy")["recorded", "four", "imported"]["rank"] is None
    # Visitors do not see commands that they cannot run.
    page = words(site.client.get("/").text)
    assert "recorded on four (imported): asked in one order." in page
    assert COMMAND.format("recorded") not in page
    assert "asked in one order: ranked by accuracy" in page
    listed = list(csv.DictReader(io.StringIO(site.client.get("/leaderboard.csv").text)))
    assert {(row["model"], row["asked"]) for row in listed} > {("once", "asked in one order"), ("leaning", "4 orders")}
    assert {row["chance"] for row in listed} == {"0.25", "0.5"}
    out, err = command(site, "leaderboard", "--benchmark", "four")
    assert "asked in one order" in out
    assert "Not ranked: recorded. Right in two orders needs two orders or more; asked in one order." in err
    assert COMMAND.format("recorded") in err
    assert "On four every question was asked in one order, so ranks are by accuracy." in err


def test_models_asked_once_are_ranked_by_accuracy_in_columns_that_have_values(site):
    html = site.client.get("/?variants=original").text
    headings = re.findall(r'data-key="sort-(\w+)"', html)
    assert "accuracy" in headings
    assert "worst_accuracy" not in headings
    page = words(html)
    assert html.index('href="/models/once"') < html.index('href="/models/again"')
    assert "These models were asked each question in one order." in page
    chosen = words(site.client.get("/?variants=cyclic&metrics=accuracy,cora").text)
    assert "These models were asked each question in one order." not in chosen
    out, _ = command(site, "leaderboard", "--variants", "original")
    heading, first, second = out.splitlines()
    assert "two orders" not in heading
    assert "Rank" in heading
    assert ("once" in first, "again" in second) == (True, True)


def test_the_overview_takes_the_most_common_protocol_and_lists_omissions(site):
    page = words(site.client.get("/overview").text)
    assert "Right in two orders under cyclic, symbols, 0-shot." in page
    left_out = (
        "3 models that were asked in other ways only, and the results under original, symbols, 0-shot (2 evaluations)"
    )
    assert f"Not on this page: {left_out}" in page
    page = words(site.client.get("/overview?variants=original").text)
    assert "Accuracy under original, symbols, 0-shot." in page
    assert "90.0" in page


def test_missing_answers_have_a_column_and_beyond_half_no_rank(lasting_sqlite, tmp_path):
    registry = Registry(lasting_sqlite(), tmp_path)
    registry.benchmark("four", FOUR)
    client = create_app(database_url=registry.url).test_client()

    def import_answers(model: str, missing: int) -> None:
        registry.model(model)
        lines = [
            {"question_id": question["id"], "variant": 0, "order": [0, 1, 2, 3]}
            | ({"position": None} if number < missing else {"position": question["answer"]})
            for number, question in enumerate(FOUR)
        ]
        import_outputs(registry.engine, ImportRequest(registry.file("o.jsonl", lines), model, "four", "original"))

    import_answers("all", 0)
    import_answers("few", len(FOUR) // 200)
    assert "Unread" not in words(client.get("/").text)
    import_answers("many", len(FOUR) // 5)
    import_answers("most", len(FOUR) * 6 // 10)
    page = words(client.get("/").text)
    assert "Unread" in page
    assert "20.0 %" in page
    by_model = {
        row["model"]: (row["rank"], row["missing_answers"]) for row in client.get("/api/v1/leaderboard").json["rows"]
    }
    assert [by_model[name][0] for name in ("all", "few", "many", "most")] == [1, 2, 3, None]
    assert by_model["many"][1] == pytest.approx(0.2)
    out = shuffleboard("leaderboard", database_url=registry.url).stdout
    assert "Unread" in out.splitlines()[0]
    assert "20.0 %" in out


def command(site, *arguments):
    """Return the command line's stdout and stderr."""
    done = shuffleboard(*arguments, database_url=str(site.engine.url))
    return done.stdout, done.stderr


def test_metrics_on_the_command_line_state_protocol_and_chance_level(site):
    number = str(rows(site)["once", "four", "original"]["evaluation_id"])
    out, _ = command(site, "metrics", number)
    assert "Asked in one order: nothing is known about other orders." in out
    assert re.search(r"accuracy +90\.0\s% \(8\d\.\d to 9\d\.\d\s%\)", out)
    guessed = str(rows(site)["guesser", "four", "cyclic"]["evaluation_id"])
    out, _ = command(site, "metrics", guessed)
    assert "Cannot be distinguished from guessing (25.0\u202f%): " in out


def test_a_board_names_unranked_models_and_omits_them_from_its_chart(site):
    document = site.client.get("/api/v1/boards/records").json
    reason = "Worst accuracy needs two orders or more; asked in one order of four (imported)"
    asking = COMMAND.format("recorded").replace("cyclic", "imported")
    expected = {"model": "recorded", "revision": 1, "column": "worst_accuracy@imported", "reason": reason}
    assert document["unranked"] == [expected | {"commands": [asking]}]
    assert document["chance"] == {"accuracy@imported": 0.25}
    page = words(site.client.get("/boards/records").text)
    assert f"Not ranked by worst accuracy: recorded . {reason}." in page
    assert "Asked in one order: nothing is known about other orders." in page
    assert asking not in page  # a visitor cannot run that
    assert "How much the order matters" not in page
    _, err = command(site, "boards", "show", "records")
    assert f"Not ranked: recorded. {reason}." in err
    assert asking in err


def test_accuracy_above_chance_is_shown_where_it_is_asked_for(site):
    plain, above = rows(site), rows(site, "?above_chance=yes")
    assert all("above_chance" not in row for row in plain.values())
    four, two = (above["knowing", benchmark, "cyclic"]["above_chance"] for benchmark in ("four", "two"))
    assert (four["accuracy"]["value"], four["accuracy"]["chance"]) == (pytest.approx((0.4 - 0.25) / 0.75), 0.25)
    assert two["accuracy"]["value"] == 0.0
    assert set(four) == {"accuracy"}  # over several orders, guessing has no single level
    low, _ = plain["knowing", "four", "cyclic"]["intervals"]["accuracy"]
    assert four["accuracy"]["interval_low"] == pytest.approx((low - 0.25) / 0.75)
    assert {key: row["rank"] for key, row in above.items()} == {key: row["rank"] for key, row in plain.items()}
    # In one list it sorts: half right is more than two fifths, and less above chance.
    order = "?variants=cyclic&model=knowing&sort=accuracy&group=no"
    assert [key[1] for key in rows(site, order)] == ["two", "four"]
    assert [key[1] for key in rows(site, f"{order}&above_chance=yes")] == ["four", "two"]
    page = words(site.client.get(f"/{order}&above_chance=yes").text)
    assert "Accuracy, above chance" in page
    assert "0.200" in page
    assert "above chance" not in words(site.client.get("/?model=knowing").text).replace("Above chance", "")
    out, _ = command(site, "leaderboard", "--above-chance", "--csv")
    listed = {(row["model"], row["benchmark"]): row for row in csv.DictReader(io.StringIO(out))}
    assert float(listed["knowing", "four"]["accuracy_above_chance"]) == pytest.approx(0.2)
    out, _ = command(site, "leaderboard", "--above-chance", "--json")
    of_command = {row["evaluation_id"]: row["above_chance"] for row in json.loads(out)["rows"]}
    assert of_command == {row["evaluation_id"]: row["above_chance"] for row in above.values()}


@pytest.mark.parametrize(
    ("metric", "change", "said"),
    [
        ("accuracy", -0.025, "−2.5 points"),
        ("accuracy", 0.00001, "less than 0.1 points"),
        ("accuracy", 0.0, "0"),
        ("pct_drop", 2.25, "+2.3 points"),
        ("accuracy_variance", 1.5, "+1.5"),
    ],
)
def test_a_change_of_a_share_is_in_percentage_points(metric, change, said):
    assert formats.metric_change(metric, change) == said


def evaluation_page(site: Site, model: str, variants: str = "cyclic") -> str:
    number = rows(site)[model, "four", variants]["evaluation_id"]
    return words(site.client.get(f"/evaluations/{number}").text)


def test_a_verdict_says_what_may_be_concluded_and_what_was_asked(site):
    page = evaluation_page(site, "knowing")
    assert "Its answers are the same in every order tried. " in page
    assert "No position" not in page  # 200 questions do not show that
    assert re.search(
        r"Right on 40\.0 % \(33\.\d to 4[67]\.\d %\) of the questions as printed\. Right in every one of 4 orders: 40\.0 % "
        r"\(33\.\d to 4[67]\.\d %\)\.",
        page,
    )
    assert "Asked: 200 questions of four, each in 4 orders (cyclic); symbols, 0-shot; 800 prompts." in page
    page = evaluation_page(site, "leaning")
    assert "It chooses A more often than A is right: in" in page
    page = evaluation_page(site, "always-a")
    assert "Verdict Cannot be distinguished from guessing (25.0 %): 25.0 %" in page
    page = evaluation_page(site, "once", "original")
    assert "Asked in one order: nothing is known about other orders." in page


def _complete(session):
    return complete_rows(session, Selection(), Ordering(), limit=None, offset=0)[0]


def test_a_model_page_lists_flips_unless_it_was_asked_once(site):
    page = words(site.client.get("/models/leaning").text)
    assert re.search(r"Where it flips .*q\d+ : right in \d of 4; two orders agree in", page)
    once = words(site.client.get("/models/once").text)
    assert "four: Asked in one order: nothing is known about other orders." in once
    assert "Where it flips" not in once
