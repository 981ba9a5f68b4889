"""Simulated models, whose pages, JSON and terminal agree, and attribute a loss to the order if it has an effect."""

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import numpy as np
import pytest

from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.verdicts.facts import Number
from registry.verdicts.wording import format_interval, points, share, value_text
from tests.outputs.conftest import Registry, four_options
from tests.support.commands import shuffleboard
from tests.verdicts.simulated import BLAME, Model, answers
from web import create_app

pytestmark = pytest.mark.one_engine

ORDERS = [(0, 1, 2, 3), (1, 2, 3, 0), (2, 3, 0, 1), (3, 0, 1, 2)]
STRENGTHS = (0.6, 0.8, 0.9, 0.95)
NUMBER = re.compile(r"−?\d[\d,]*\.\d(?:\u202f%| points?)|\(−?\d[^)]* to [^)]*\)")
QUICK, MANY = 4, 300


class Worlds:
    """A registry of simulated models, each run twice in each of four orders."""

    def __init__(self, url: str, registry: Registry) -> None:
        self.registry, self.url = registry, url
        self.client = create_app(database_url=url).test_client()
        self.generator = np.random.default_rng(7)
        self.known: set[str] = set()

    def add(self, model: Model, questions: int) -> tuple[str, int]:
        """Import a model's answers and return its name and the evaluation."""
        benchmark, name = f"of-{questions}", f"model-{len(self.known)}"
        if benchmark not in self.known:
            self.registry.benchmark(benchmark, four_options(questions))
            self.known.add(benchmark)
        self.known.add(name)
        self.registry.model(name)
        probabilities = model.probabilities(self.generator, 1, questions, len(ORDERS))
        (chosen,) = answers(self.generator, probabilities, 2)
        lines = []
        for question, of_question in zip(four_options(questions), chosen.tolist(), strict=True):
            for variant, option in enumerate(option for of_order in of_question for option in of_order):
                order = ORDERS[variant // 2]
                position = order.index((question["answer"] + option) % 4)
                lines.append({"question_id": question["id"], "variant": variant, "order": order, "position": position})
        file = self.registry.file(f"{name}.jsonl", [json.dumps(line) for line in lines])
        request = ImportRequest(file, name, benchmark, "cyclic:repeats=2", "select-letter")
        return name, import_outputs(self.registry.engine, request)

    def page(self, address: str) -> str:
        """Return the sentences of a page's verdict."""
        html = self.client.get(address).text
        verdict = html.partition('<section class="verdict"')[2].partition("</section>")[0]
        text = re.sub(r"<svg.*?</svg>|<[^>]+>", " ", verdict, flags=re.DOTALL)
        return re.sub(r"[ \n]+", " ", unescape(text))

    def said(self, name: str, evaluation: int) -> list[str]:
        """Return the texts about a model, after checking that its two pages and the terminal agree."""
        page, of_model = self.page(f"/evaluations/{evaluation}"), self.page(f"/models/{name}")
        terminal = shuffleboard("metrics", evaluation, database_url=self.url).stdout
        document = self.client.get(f"/api/v1/evaluations/{evaluation}/metrics").json
        stated = set(write(document))
        for text in (page, of_model):
            assert set(NUMBER.findall(text.partition("Asked:")[0])) <= stated, (text, stated)
        conclusion = of_model.partition(": ")[2].partition(". ")[0]
        assert conclusion in page, (conclusion, page)
        assert conclusion in terminal, (conclusion, terminal)
        return [page, of_model, terminal]


def write(document: dict[str, Any]) -> Iterator[str]:
    """Yield the numbers of an evaluation as sentences write them."""
    yield share(document["chance"])
    for metric, value in document["metrics"].items():
        if value is None:
            continue
        yield value_text(metric, value)
        if (ends := document["intervals"].get(metric)) is not None:
            low, high = ends
            yield format_interval(metric, Number(value, 0, low, high)).strip()
            yield value_text(metric, high)
    noise = document["noise"]
    yield from (share(noise[name]) for name in ("repeat_disagreement", "order_disagreement"))
    if noise["order_effect"] is not None:
        yield points(noise["order_effect"])
        yield format_interval("order_loss", Number(0, 0, *noise["interval"])).strip()


@pytest.fixture(scope="module")
def worlds(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """Return a registry without any model."""
    url = lasting_sqlite()
    return Worlds(url, Registry(url, tmp_path_factory.mktemp("worlds")))


def is_blamed(worlds: Worlds, model: Model, questions: int) -> bool:
    return any(BLAME.search(text) for text in worlds.said(*worlds.add(model, questions)))


@pytest.mark.parametrize(("count", "most"), [(QUICK, 1), pytest.param(MANY, MANY // 50, marks=pytest.mark.long)])
def test_chance_is_blamed_on_the_order_in_one_of_fifty(worlds: Worlds, count: int, most: int) -> None:
    blamed = [is_blamed(worlds, Model(STRENGTHS[world % len(STRENGTHS)]), 100) for world in range(count)]
    assert sum(blamed) <= most


@pytest.mark.parametrize("count", [2, pytest.param(MANY // 3, marks=pytest.mark.long)])
def test_a_cost_of_three_points_is_named_in_nine_of_ten(worlds: Worlds, count: int) -> None:
    blamed = [is_blamed(worlds, Model((0.7, 0.8, 0.9)[world % 3], 0.03), 400) for world in range(count)]
    assert sum(blamed) >= 0.9 * count
