"""The numbers in a board's row, which must be the same in table, drawing, the drawing's words and the JSON."""

import re
from html import unescape

import pytest

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.verdicts.wording import points, share, tenths
from tests.outputs.conftest import Registry, four_options, registry
from web import create_app

__all__ = ["registry"]

QUESTIONS = four_options(240)
ROTATIONS = [[(place + turn) % 4 for place in range(4)] for turn in range(4)]
METRICS = ("right_twice_across_orders", "accuracy", "order_loss", "worst_accuracy")


def answers(repeated: int) -> list[dict[str, object]]:
    """Return answers in four orders, and for the first `repeated` questions another answer in the first order."""
    lines = []
    for number, question in enumerate(QUESTIONS):
        for variant, order in enumerate([*ROTATIONS, *([ROTATIONS[0]] if number < repeated else [])]):
            # Right in every order, in the first two, or at the first position; repeats of some questions differ.
            right = number % 5 < 2 or (number % 5 == 2 and variant in (0, 1, 4)) or order[0] == question["answer"]
            right = right and (number % 10 or variant != 4)
            place = order.index(question["answer"])
            lines.append(
                {
                    "question_id": question["id"],
                    "variant": variant,
                    "order": order,
                    "position": place if right else (place + 1) % 4,
                }
            )
    return lines


def shown_numbers(html: str) -> tuple[dict[str, str], str, dict[str, float]]:
    """Return the numbers of a row by the names that its cards show, the drawing's words, and the drawing's places."""
    plain = re.compile(r"<[^>]+>")
    cells = {
        unescape(label): " ".join(unescape(plain.sub(" ", cell.partition("<small")[0])).split())
        for label, cell in re.findall(
            r'<td role="cell" class="number[^"]*" data-label="([^"]+)"[^>]*>(.*?)</td>', html, re.DOTALL
        )
    }
    words = unescape(re.search(r'class="span"[^>]* aria-label="([^"]+)"', html)[1])
    places = {
        "right": re.search(r'<circle cx="([\d.]+)%"', html),
        "two": re.search(r'<line class="two" x1="([\d.]+)%"', html),
        "lost": re.search(r'<rect class="(?:order|unknown)"[^>]* width="([\d.]+)%"', html),
    }
    return cells, words, {name: float(match[1]) / 100 for name, match in places.items() if match}


@pytest.mark.long_on("postgresql")
@pytest.mark.parametrize("repeated", [240, 90], ids=["every question repeated", "some questions repeated"])
def test_table_drawing_and_words_of_a_row_state_the_same_numbers(registry: Registry, repeated: int) -> None:
    registry.benchmark("b", QUESTIONS)
    number = import_outputs(
        registry.engine, ImportRequest(registry.file("m.jsonl", answers(repeated)), "m", "b", "imported")
    )
    with write_session(registry.engine) as session:
        suite = {"name": "s", "tasks": [{"benchmark": "b", "variants": ["imported"]}]}
        import_suite(session, SuiteDefinition.model_validate(suite))
        columns = tuple(f"{name}@imported" for name in METRICS)
        import_board(session, BoardDefinition(name="s", suite="s", columns=columns))
    refresh_boards(registry.engine)
    client = create_app(database_url=registry.url).test_client()
    document = client.get(f"/api/v1/evaluations/{number}/metrics").json
    metrics = document["metrics"]
    (row,) = client.get("/api/v1/boards/s").json["rows"]
    for name in METRICS:
        assert row["values"][f"{name}@imported"]["value"] == pytest.approx(metrics[name])
    expected = {
        "Right, mean over orders": share(metrics["average_accuracy"]),
        "Right in two orders": share(metrics["right_twice_across_orders"]),
        "Accuracy, as printed": share(metrics["accuracy"]),
        "Order loss": points(metrics["order_loss"]),
        "Worst accuracy": share(metrics["worst_accuracy"]),
    }
    assert metrics["order_loss"] > 0.05
    assert metrics["chance_loss"] > 0.01
    stored = {tenths(value).lstrip("−") for value in metrics.values() if value is not None}
    stored |= {tenths(end) for end in row["values"]["order_loss@imported"]["interval"]}
    once = metrics["right_twice_same_order"] + metrics["chance_loss"]  # in the repeated order; the others are the rest
    stored |= {tenths(0.25), "240", str(repeated), tenths(once), tenths(abs(metrics["average_accuracy"] - once))}
    # The loss on some questions may exceed the loss on all.
    lost = min(metrics["order_loss"], metrics["average_accuracy"] - metrics["right_twice_across_orders"])
    for address in ("/boards/s", "/boards/s/own", "/"):
        page = client.get(address).text
        (html,) = re.findall(
            r'<tr role="row"(?: data-row="\d+")?>\s*<td role="cell" class="rank">.*?</tr>', page, re.DOTALL
        )
        cells, words, places = shown_numbers(html)
        assert {name: cells[name] for name in expected} == {
            name: value.replace("\u202f", " ") for name, value in expected.items()
        }
        assert places == {
            "right": pytest.approx(metrics["average_accuracy"], abs=1e-4),
            "two": pytest.approx(metrics["right_twice_across_orders"], abs=1e-4),
            "lost": pytest.approx(lost, abs=1e-4),
        }
        for name in ("Right, mean over orders", "Right in two orders", "Accuracy, as printed", "Order loss"):
            assert expected[name] in words, (name, words)
        # Every number in the words is in the row, or among the evaluation's metrics.
        assert set(re.findall(r"\d[\d,.]*\d", words)) <= stored, words
