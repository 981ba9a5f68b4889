"""Random evaluations and boards, whose pages are read and whose every number is compared with the answers."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice, permutations
from math import factorial
from typing import Any

import pytest
from bs4 import BeautifulSoup, Tag

from registry.boards.definition import BoardDefinition, SuiteDefinition
from registry.boards.snapshots import refresh_boards
from registry.boards.store import import_board, import_suite
from registry.db import write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.verdicts.wording import interval_text, points, share, value_text
from tests.outputs.conftest import Registry
from tests.verdicts.generated import RECORDED, Raw, make
from tests.verdicts.test_sentences import accuracy_of, is_tested, missing_of, right_twice_across, twice
from web import create_app

pytestmark = pytest.mark.one_engine

QUICK, MANY, AT_ONCE, MODELS = 2, 200, 20, 5
PROTOCOLS = {True: "select-letter", False: "select-letter-greedy", None: "symbols"}
LABELS = {
    "right_twice_across_orders": "Right in two orders",
    "accuracy": "Accuracy, as printed",
    "average_accuracy": "Average accuracy",
    "order_loss": "Order loss",
    "worst_accuracy": "Worst accuracy",
}
METRICS = tuple(LABELS)
DECIMAL = re.compile(r"−?\d[\d,]*\.\d+")


def fits(raw: Raw) -> bool:
    """Return whether answers can be recorded by another program: in different orders, without ties."""
    levels = max(map(raw.prompts, range(len(raw.asked))), default=0)
    lines = sum(map(len, raw.asked))
    return raw.varied in ("order", None) and raw.listed and 0 < levels <= factorial(raw.options) and lines <= 1500


def draw(seed: int) -> Iterator[Raw]:
    """Yield models for a board, without end: all answer the same prompts, each with a different ability."""
    alike = next(number for number in range(1000 * seed, 1000 * seed + 1000) if fits(make(number, alike=number)))
    samples = make(alike, alike=alike).samples
    number = 10_000 * alike
    while True:
        number += 1
        raw = make(number, alike=alike)
        if fits(raw) and raw.samples is samples and not raw.tied:
            raw.kind, raw.lacks_original, raw.again = RECORDED, False, []
            yield raw


def record(raw: Raw) -> Iterator[dict[str, Any]]:
    """Yield the lines of a file with these answers, where option 0 is right."""
    orders = list(islice(permutations(range(raw.options)), 24))
    for number, answers in enumerate(raw.asked):
        for variant, (level, option) in enumerate(answers):
            chosen = None if option is None else orders[level].index((number + option) % raw.options)
            yield {"question_id": f"q{number}", "variant": variant, "order": orders[level], "position": chosen}


class Boards:
    """A registry that is filled with boards of random models."""

    def __init__(self, url: str, registry: Registry) -> None:
        self.registry = registry
        self.client = create_app(database_url=url).test_client()

    def add(self, seed: int) -> tuple[str, dict[int, tuple[str, Raw]]]:
        """Import the models of a board; return its name, and the model and answers of each evaluation."""
        board, raws = f"board-{abs(seed)}", list(islice(draw(seed), MODELS))
        options, protocol = raws[0].options, PROTOCOLS[raws[0].samples]
        self.registry.benchmark(
            board,
            [
                {
                    "id": f"q{n}",
                    "question": f"Question {n}?",
                    "options": list("abcdefghij"[:options]),
                    "answer": n % options,
                }
                for n in range(len(raws[0].asked))
            ],
        )
        raw_answers = {}
        for place, raw in enumerate(raws):
            model = f"{board}-{'vwxyz'[place]}"
            self.registry.model(model)
            file = self.registry.file(f"{model}.jsonl", list(record(raw)))
            request = ImportRequest(file, model, board, "imported", protocol)
            raw_answers[import_outputs(self.registry.engine, request)] = (model, raw)
        task = {"benchmark": board, "variants": ["imported"], "protocols": [protocol]}
        with write_session(self.registry.engine) as session:
            import_suite(session, SuiteDefinition.model_validate({"name": board, "tasks": [task]}))
            columns = tuple(f"{name}@imported" for name in METRICS)
            import_board(session, BoardDefinition(name=board, suite=board, columns=columns))
        return board, raw_answers

    def read(self, address: str) -> Tag:
        """Return the parsed main part of a page."""
        response = self.client.get(address)
        assert response.status_code == 200, address
        main = BeautifulSoup(response.text, "html.parser").main
        assert main is not None
        return main

    def ask(self, address: str) -> Any:
        """Return an answer of the API."""
        return self.client.get(f"/api/v1{address}").json


@pytest.mark.parametrize(
    "first",
    [pytest.param(start, marks=[pytest.mark.long] * (start >= 0)) for start in (-QUICK, *range(0, MANY, AT_ONCE))],
)
def test_pages_of_random_evaluations_state_their_answers_numbers(
    first: int, lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = lasting_sqlite()
    boards = Boards(url, Registry(url, tmp_path_factory.mktemp("boards")))
    added = [boards.add(seed) for seed in (range(first, 0) if first < 0 else range(first, first + AT_ONCE))]
    refresh_boards(boards.registry.engine)
    for board, evaluations in added:
        written = {}
        for evaluation, (model, raw) in evaluations.items():
            document = boards.ask(f"/evaluations/{evaluation}/metrics")
            check_metrics(raw, document["metrics"])
            written[model] = set(write(document, raw))
            check_evaluation(boards.read(f"/evaluations/{evaluation}"), document, raw, written[model])
        check_board(boards.read(f"/boards/{board}"), boards.ask(f"/boards/{board}"), written)


def check_metrics(raw: Raw, metrics: dict[str, float | None]) -> None:
    """Check the registry's metrics by the answers."""
    expected: dict[str, float] = {"accuracy": accuracy_of(raw)}
    if is_tested(raw):
        tested = [index for index in range(len(raw.asked)) if raw.prompts(index) > 1]
        expected["worst_accuracy"] = sum(all(raw.right(index)) for index in tested) / len(tested)
        expected["right_twice_across_orders"] = right_twice_across(raw)
    if metrics.get("order_loss") is not None:
        same, across = twice(raw)
        expected |= {"right_twice_same_order": same, "order_loss": same - across}
    assert {name: metrics[name] for name in expected} == pytest.approx(expected, abs=1e-9)


def write(document: dict[str, Any], raw: Raw) -> Iterator[str]:
    """Yield the numbers of an evaluation as texts write them: the registry's, and the numbers of answers by state."""
    yield share(document["chance"])
    yield share(float(missing_of(raw)))
    answered = [answers[0][1] == 0 for answers in raw.asked if answers[0][1] is not None]
    yield share(sum(answered) / max(1, len(answered)))
    metrics = document["metrics"]
    if metrics["right_twice_across_orders"] is not None:
        yield points(metrics["average_accuracy"] - metrics["right_twice_across_orders"])
    if metrics["accuracy"] is not None:
        yield points(abs(metrics["accuracy"] - document["chance"]))
        yield points(metrics["accuracy"] - (metrics["worst_accuracy"] or 0))
    if metrics["order_loss"] is not None:
        # If some orders were asked more often: right once in these, and its difference to all orders.
        once = metrics["right_twice_same_order"] + metrics["chance_loss"]
        yield from (share(once), points(metrics["average_accuracy"] - once))
    for metric, value in metrics.items():
        if value is not None:
            yield value_text(metric, value)
        if (ends := document["intervals"].get(metric)) is not None:
            yield interval_text(metric, *ends)
            yield from (value_text(metric, end) for end in ends)
    if (noise := document["noise"]) is not None:
        yield from (
            share(noise[name]) for name in ("repeat_disagreement", "order_disagreement") if noise[name] is not None
        )
        yield from (share(end) for name in ("repeat_interval", "order_interval") for end in noise[name] or ())
        if noise["order_effect"] is not None:
            yield from map(points, (noise["order_effect"], *noise["interval"]))


def list_decimals(texts: Iterable[str]) -> set[str]:
    """Return the numbers with decimals in some texts."""
    return {decimals for text in texts for decimals in DECIMAL.findall(text)}


def read_texts(tag: Tag) -> list[str]:
    """Return the text of a part of a page, and the words of its drawings."""
    return [tag.get_text(" "), *(str(tag_labelled["aria-label"]) for tag_labelled in tag.select("[aria-label]"))]


def check_read(page: Tag, allowed: set[str]) -> None:
    """Check every number with decimals in a part of a page."""
    for text in read_texts(page):
        for extra in list_decimals([text]) - allowed:
            place = text.index(extra)
            raise AssertionError(f"{extra} is no number of this page: {text[max(0, place - 300) : place + 100]}")


def read_cell(cell: Tag) -> list[str]:
    """Return the text of a table's cell, and the texts of its notes."""
    return [" ".join(part.split()) for part in cell.get_text("\n").replace("\u202f", " ").split("\n") if part.strip()]


def check_evaluation(page: Tag, document: dict[str, Any], raw: Raw, known: set[str]) -> None:
    """Check the tables of an evaluation's page by its metrics and answers, and every other number by the tables."""
    metrics, intervals = document["metrics"], document["intervals"]
    for row in page.select("tr[id^=metric-]"):
        name = str(row["id"]).removeprefix("metric-")
        value, *notes = read_cell(row.select("td")[0])
        assert value == value_text(name, metrics[name]).replace("\u202f", " "), name
        stated = [] if intervals[name] is None else [interval_text(name, *intervals[name]).replace("\u202f", " ")]
        assert notes[:-1] == stated, name
    for shown in page.select("dl.headlines > div"):
        name = str(shown.select("a")[0]["href"]).partition("#")[2]
        value, *notes = read_cell(shown.select("dd")[0])
        expected = "–" if metrics[name] is None else value_text(name, metrics[name]).replace("\u202f", " ")
        assert value == expected, name
        if intervals[name] is not None:
            assert notes[0] == interval_text(name, *intervals[name]).replace("\u202f", " "), name
    decimals = list_decimals(known)
    decimals |= check_positions(page, raw) | check_flips(page, raw) | check_thresholds(page, raw)
    for section in page.select("section.explorer, section:has(> #provenance), details.panel"):
        section.decompose()
    for details in page.select("#provenance"):
        for following in list(details.find_all_next()):
            following.extract()
    check_read(page, decimals)


def find_table(page: Tag, caption: str) -> list[list[list[str]]]:
    """Return the rows of the table with such a caption, as texts and notes of their cells; none if it is not shown."""
    for table in page.select("table"):
        if table.caption is not None and table.caption.get_text().startswith(caption):
            return [[read_cell(cell) for cell in row.select("td, th")] for row in table.select("tbody tr")]
    return []


def check_positions(page: Tag, raw: Raw) -> set[str]:
    """Check the answers by position; return the shares among them."""
    lines, shares = list(record(raw)), set()
    for place, row in enumerate(find_table(page, "Answers by position")):
        chosen = sum(line["position"] == place for line in lines)
        right = [line for line in lines if line["order"].index(int(line["question_id"][1:]) % raw.options) == place]
        correct = sum(line["position"] == place for line in right)
        assert row[1] == [f"{chosen:,}", plain(share(chosen / len(lines)))], place
        assert row[2] == [f"{len(right):,}", plain(share(len(right) / len(lines)))], place
        if right:
            assert row[3] == [plain(share(correct / len(right))), f"{correct:,} of {len(right):,}"], place
        shares |= list_decimals(text for cell in row for text in cell)
    return shares


def check_flips(page: Tag, raw: Raw) -> set[str]:
    """Check the questions by how many of their answers are right; return the shares among them."""
    rows, shares = find_table(page, "Questions by how many of their"), set()
    if rows:
        rights = [right for index in range(len(raw.asked)) if len(right := raw.right(index)) > 1]
        assert sum(int(row[3][0].replace(",", "")) for row in rows) == len(rights)
        assert rows[0][3][0] == f"{sum(not any(right) for right in rights):,}"
        assert rows[-1][3][0] == f"{sum(map(all, rights)):,}"
        for row in rows:
            steady, flips, both = (int(row[place][0].replace(",", "")) for place in (1, 2, 3))
            assert (steady + flips, row[3][1]) == (both, plain(share(both / len(rights))))
            shares |= list_decimals(row[3])
        shares |= list_decimals([share(sum(int(row[2][0].replace(",", "")) for row in rows) / len(rights))])
    return shares


def check_thresholds(page: Tag, raw: Raw) -> set[str]:
    """Check the shares of questions that are right often enough; return them and their intervals."""
    thresholds = set()
    for row in find_table(page, "Share of questions right in at least"):
        least = float(row[0][0].removesuffix(" %")) / 100
        rights = [raw.right(index) for index in range(len(raw.asked))]
        value = sum(sum(right) >= least * len(right) - 1e-9 for right in rights) / len(rights)
        assert row[1] == [plain(share(value))], row
        thresholds |= list_decimals(text for cell in row for text in cell)
    return thresholds


def plain(text: str) -> str:
    """Return a text with ordinary spaces."""
    return text.replace("\u202f", " ")


def check_board(page: Tag, document: dict[str, Any], known: dict[str, set[str]]) -> None:
    """Check every number of a board's rows, drawings and sentences by its JSON and its evaluations."""
    rows = {row["model"]: row for row in document["rows"]}
    shown = page.select("table.standing tbody tr")
    assert len(shown) == len(rows)
    for html in shown:
        row = rows[str(html.select("th")[0]["title"])]
        for column in document["columns"]:
            value = row["values"][column["name"]]
            for cell in html.select(f'td[data-label="{LABELS[column["metric"]]}"]'):
                text = read_cell(cell)[0]
                if value["value"] is None:
                    assert not DECIMAL.search(text), (text, value)
                else:
                    assert text == plain(value_text(column["metric"], value["value"])), column
                if value["interval"] is not None:
                    assert interval_text(column["metric"], *value["interval"]) in str(cell.get("title")), column
        own = list_decimals(known[row["model"]]) | list_decimals(list(write_row(row)))
        check_read(html, own)
    every = set().union(*(list_decimals(facts) for facts in known.values()))
    every |= set().union(*(list_decimals(list(write_row(row))) for row in rows.values()))
    for sentence in page.select("p.conclusion"):
        models = [model for model in known if model in sentence.get_text()]
        allowed = list_decimals(known[models[0]]) if len(models) == 1 else every
        check_read(sentence, allowed)
    check_read(page, every)


def write_row(row: dict[str, Any]) -> Iterator[str]:
    """Yield the numbers of a board's row as texts write them."""
    for name, value in row["values"].items():
        metric = name.partition("@")[0]
        if value["value"] is not None:
            yield value_text(metric, value["value"])
        if value["interval"] is not None:
            yield interval_text(metric, *value["interval"])
