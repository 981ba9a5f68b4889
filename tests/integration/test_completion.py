"""Completing options verbatim: which orders are compared, what counts as completed, and who is an outlier."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from registry.studies.completion import NGRAM, NO_REFERENCE, ORDERS, Texts, compared_orders, completion_document
from tests.commands import shuffleboard, shuffleboard_json
from tests.population import question, write_lines
from workers.engine import completion
from workers.engine.completion import shares_completed

WORDS = ("red", "green", "blue", "black", "white", "brown", "pink", "grey", "violet", "yellow", "gold", "silver")


def lines(count: int, options: int = 4) -> list[dict[str, object]]:
    """Questions whose options are a few words each, none of them like another question's."""
    draw = np.random.default_rng(1)
    return [
        question(number, options=options)
        | {"options": [" ".join([*draw.choice(WORDS, 6, replace=False), str(number)]) for _ in range(options)]}
        for number in range(count)
    ]


class Memory(torch.nn.Module):
    """Says what followed the last `reach` tokens in the texts that it was given; token 0 where they had none."""

    def __init__(self, texts: Sequence[Sequence[int]], reach: int, vocabulary: int) -> None:
        super().__init__()
        self.reach, self.vocabulary = reach, vocabulary
        self.after = {tuple(ids[max(0, end - reach) : end]): ids[end] for ids in texts for end in range(1, len(ids))}

    def forward(self, input_ids: torch.Tensor, *, use_cache: bool) -> SimpleNamespace:
        assert not use_cache
        (ids,) = input_ids.tolist()
        logits = torch.zeros(1, len(ids), self.vocabulary)
        for end in range(1, len(ids) + 1):
            logits[0, end - 1, self.after.get(tuple(ids[max(0, end - self.reach) : end]), 0)] = 1.0
        return SimpleNamespace(logits=logits)


@pytest.mark.parametrize(("options", "expected"), [(3, 2), (4, 6), (5, ORDERS), (10, ORDERS)])
def test_the_key_keeps_its_place_in_every_order_that_is_compared(options: int, expected: int) -> None:
    for key in range(options):
        orders = compared_orders("q", options, key)
        assert len(set(orders)) == len(orders) == expected
        assert tuple(range(options)) in orders
        assert all(sorted(order) == list(range(options)) and order[key] == key for order in orders)


def test_what_is_completed_is_what_would_be_written_greedily() -> None:
    draw = np.random.default_rng(0)
    texts = [[1, 2, 3, *draw.integers(4, 9, size=30).tolist()] for _ in range(3)]
    loaded = SimpleNamespace(
        model=Memory(texts[:1], 2, 10),
        tokenizer=lambda text: {"input_ids": texts[int(text)]},
        device=torch.device("cpu"),
        max_length=None,
    )

    def written(ids: list[int], begin: int) -> list[int]:
        shown = ids[:begin]
        for _ in range(2):
            logits = loaded.model(torch.tensor([shown]), use_cache=False).logits
            shown = [*shown, int(logits[0, -1].argmax())]
        return shown[begin:]

    same = next(place for place in range(33) if len({ids[place] for ids in texts}) > 1)
    expected = [np.mean([written(ids, begin) == ids[begin : begin + 2] for begin in range(same, 32)]) for ids in texts]
    found = shares_completed(loaded, ["0", "1", "2"], 2)  # type: ignore[arg-type]
    assert found == pytest.approx(expected)
    assert len({*expected}) > 1
    loaded.max_length = 32
    assert shares_completed(loaded, ["0", "1", "2"], 2) is None  # type: ignore[arg-type]


def test_beside_a_fluent_model_one_of_its_kind_is_seldom_an_outlier_and_one_that_remembers_is() -> None:
    def said(seen: float, seed: int, *, alone: bool = False) -> bool | None:
        draw = np.random.default_rng(seed)
        easy, published = draw.random((100, 1)) * 0.4, draw.integers(6, size=100)

        def fluent() -> Any:
            """What a model completes, of which it finds two points more in the published order, whatever it saw."""
            shares = easy + 0.1 * draw.random((100, 6))
            shares[np.arange(100), published] += 0.02
            return shares

        own, other = fluent(), fluent()
        own[np.arange(100), published] += np.where(draw.random(100) < seen, 0.2, 0.0)
        texts = Texts([("",) * 6] * 100, published.tolist(), 0, 0)
        reference = None if alone else other.tolist()
        document = completion_document(texts, own.tolist(), reference)
        assert alone == (document["why"] == NO_REFERENCE)
        return document["outlier"]

    assert sum(said(0.0, seed) is True for seed in range(200)) <= 5  # 2 are expected
    assert all(said(0.2, seed) for seed in range(20))
    assert said(0.2, 0, alone=True) is None


def test_the_command_says_who_completes_the_published_order(
    clean_environment: Path, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_lines(clean_environment / "b.jsonl", [*lines(40), question(40, options=2)])
    shuffleboard("benchmarks", "import", file, "--name", "b", "--licence", "MIT")
    shuffleboard("models", "add", "tiny", "--kind", "huggingface", "--location", tiny_folder)
    shuffleboard("models", "add", "fluent", "--kind", "huggingface", "--location", tiny_folder)
    shuffleboard("models", "add", "elsewhere", "--kind", "external")
    asked = ("statistics", "completion", "tiny", "b", "--questions", 41)
    assert "the order changes nothing that the model completes" in shuffleboard(*asked).stdout

    real, asked_first = completion.shares_completed, list[SimpleNamespace]()

    def remembering(loaded: SimpleNamespace, texts: Sequence[str], n: int) -> list[float] | None:
        asked_first.append(loaded)
        if loaded is not asked_first[0]:
            return real(loaded, texts, n)  # type: ignore[arg-type]
        published = [loaded.tokenizer(texts[0])["input_ids"]]  # the first in sorted order is the published one
        model = Memory(published, 3, len(loaded.tokenizer))
        return real(SimpleNamespace(**vars(loaded) | {"model": model}), texts, n)  # type: ignore[arg-type]

    monkeypatch.setattr(completion, "shares_completed", remembering)
    assert "nothing can be told, since the published order may be the easiest" in shuffleboard(*asked).stdout
    asked_first.clear()
    asked = (*asked, "--reference", "fluent")
    document = shuffleboard_json(*asked)
    assert document["reference"] == {"model": "fluent@1", "completed": 0.0, "expected": 0.0}
    asked_first.clear()
    assert (document["n"], document["questions"], document["other"], document["outlier"]) == (NGRAM, 40, 1, True)
    assert document["completed"] > document["expected"] > 0
    assert (document["model"], document["benchmark"].split("@")[0]) == ("tiny@1", "b")
    assert "the published order is an outlier (p = 0.00" in shuffleboard(*asked).stdout
    for models in (("elsewhere", "b"), ("tiny", "b", "--reference", "elsewhere")):
        refused = shuffleboard("statistics", "completion", *models, status=1).stderr
        assert "only a model whose files are on this machine can be asked" in refused
