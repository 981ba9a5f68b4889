"""Batches, which are halved when memory runs out, and the size that fitted, which is remembered."""

import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.memory import MINIMUM_TOKENS, TokenBudgets, is_of_device, is_out_of_memory
from workers.scorer import TransformersScorer

MODEL, OTHER = 1, 2


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


class Scorer:
    """An engine that runs out of memory above `room` tokens."""

    def __init__(self, room: int, error: Callable[[], Exception] = MemoryError) -> None:
        self.loaded_model_revision_id: int | None = MODEL
        self.budget_tokens = 4096
        self.room = room
        self.error = error
        self.tried: list[int] = []

    def score(self) -> str:
        self.tried.append(self.budget_tokens)
        if self.budget_tokens > self.room:
            raise self.error()
        return "scored"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError,
        lambda: OutOfMemoryError("CUDA: 4 GiB more"),
        lambda: RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        lambda: RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory"),
        lambda: RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"),
    ],
)
def test_a_batch_is_halved_until_it_fits(error: Callable[[], Exception]) -> None:
    scorer, budgets = Scorer(1500, error), TokenBudgets()
    assert budgets.run(scorer, MODEL, scorer.score) == "scored"
    assert scorer.tried == [4096, 2048, 1024]
    assert budgets.document() == {"1": 1024}


def test_what_fitted_is_remembered_for_each_model() -> None:
    scorer, budgets = Scorer(1500), TokenBudgets()
    budgets.run(scorer, MODEL, scorer.score)
    scorer.tried.clear()
    budgets.run(scorer, MODEL, scorer.score)
    assert scorer.tried == [1024]
    scorer.loaded_model_revision_id, scorer.room = OTHER, 10_000
    budgets.run(scorer, OTHER, scorer.score)
    assert scorer.tried == [1024, 4096]
    assert budgets.document() == {"1": 1024}


def test_what_an_earlier_worker_found_is_begun_with() -> None:
    scorer = Scorer(1500)
    TokenBudgets({"1": 512}).run(scorer, MODEL, scorer.score)
    assert scorer.tried == [512]


def test_an_error_that_was_raised_from_one_of_memory_counts_as_well() -> None:
    error = ValueError("cannot score")
    assert not is_out_of_memory(error)
    error.__cause__ = MemoryError()
    assert is_out_of_memory(error)
    assert not is_out_of_memory(ValueError("out of range"))


def test_other_errors_are_raised_at_once() -> None:
    scorer = Scorer(0, lambda: RuntimeError("shapes do not match"))
    with pytest.raises(RuntimeError, match="shapes"):
        TokenBudgets().run(scorer, MODEL, scorer.score)
    assert scorer.tried == [4096]


@pytest.mark.long
def test_a_model_that_does_not_fit_at_all_is_given_up() -> None:
    scorer, budgets = Scorer(0), TokenBudgets()
    with pytest.raises(MemoryError):
        budgets.run(scorer, MODEL, scorer.score)
    assert scorer.tried[-1] == MINIMUM_TOKENS
    assert len(scorer.tried) == 8


def test_smaller_batches_are_not_tried_if_the_model_cannot_load() -> None:
    scorer, budgets = Scorer(0), TokenBudgets()
    scorer.loaded_model_revision_id = None
    with pytest.raises(MemoryError):
        budgets.run(scorer, MODEL, scorer.score)
    assert scorer.tried == [4096]
    assert budgets.document() == {}


@pytest.mark.parametrize(
    ("error", "of_device"),
    [
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), False),
        (RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB"), False),
        (RuntimeError("shapes do not match"), False),
        (ValueError("CUDA error"), False),
    ],
)
def test_an_error_of_the_device_is_told_from_others(error: Exception, of_device: bool) -> None:
    assert is_of_device(error) == of_device
    wrapped = ValueError("cannot score")
    wrapped.__cause__ = error
    assert is_of_device(wrapped) == of_device


def test_a_model_is_given_back_before_the_next_one_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check this, since otherwise the next model's budget is the memory that the first one leaves."""

    class Model:
        def __init__(self) -> None:
            self.itself = self  # only collecting garbage finds it

        def close(self) -> None:
            """Do nothing, since nothing is open."""

    scorer = TransformersScorer(tmp_path)
    models: list[weakref.ref[Model]] = []

    def load(_revision: Any) -> Model:
        assert all(earlier() is None for earlier in models)
        model = Model()
        models.append(weakref.ref(model))
        return model

    monkeypatch.setattr(scorer, "_local", load)
    for number in (1, 2, 3):
        scorer._load(SimpleNamespace(id=number, kind="huggingface", number=1, model=SimpleNamespace(name="m")))
    assert [reference() is None for reference in models] == [True, True, False]
