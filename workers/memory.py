"""Batches that fit in memory: halved when memory runs out, and remembered for each model."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from registry.process_log import log
from workers.errors import EngineError

MINIMUM_TOKENS: Final = 32
"""Smallest batch: a model that cannot compute this many tokens cannot be scored here."""

_SIGNS: Final = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
    "not enough memory",
)
"""Texts in allocators' errors; torch raises a plain RuntimeError on the CPU and from some libraries."""

_OF_DEVICE: Final = ("AcceleratorError", "EngineDeadError")
_DEVICE_SIGNS: Final = (
    "cuda error",
    "cudnn error",
    "cublas_status",
    "cusparse_status",
    "nccl error",
    "hip error",
    "ecc error",
)
"""Texts in errors of a failed device or its driver: the process can compute nothing more."""

T = TypeVar("T")


class Budgeted(Protocol):
    """A scorer whose batches can be made smaller."""

    loaded_model_revision_id: int | None
    budget_tokens: int


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error or its cause reports a lack of memory."""
    for cause in _chain(error):
        if isinstance(cause, MemoryError) or type(cause).__name__ == "OutOfMemoryError":
            return True
        if isinstance(cause, RuntimeError) and any(sign in str(cause).lower() for sign in _SIGNS):
            return True
    return False


def is_of_device(error: BaseException) -> bool:
    """Return whether an error or its cause reports a failed device, other than a lack of memory."""
    if is_out_of_memory(error):
        return False
    for cause in _chain(error):
        if type(cause).__name__ in _OF_DEVICE:
            return True
        if isinstance(cause, RuntimeError) and any(sign in str(cause).lower() for sign in _DEVICE_SIGNS):
            return True
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def release_memory() -> None:
    """Free unused memory: collect garbage and empty the caches of torch's allocators."""
    gc.collect()
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


class TokenBudgets:
    """The tokens of a batch that fitted, by model revision, on the device of one worker.

    known: results of an earlier worker on the same device, from revision id as text to tokens.
    """

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        self._fitting = dict(known or {})
        self._untouched: int | None = None

    def document(self) -> dict[str, int]:
        """Return the tokens in the form of the worker's row."""
        return dict(self._fitting)

    def run(self, scorer: Budgeted, model_revision_id: int, score: Callable[[], T]) -> T:
        """Call `score` with the fitting budget, halving the budget after each failure for lack of memory.

        The budget is halved only once the model is loaded: smaller batches do not help a model that does not fit. Other
        errors are raised unchanged.
        """
        if self._untouched is None:
            self._untouched = scorer.budget_tokens
        key = str(model_revision_id)
        scorer.budget_tokens = min(self._untouched, self._fitting.get(key, self._untouched))
        while True:
            try:
                return score()
            except (MemoryError, RuntimeError, EngineError) as error:  # torch's own is a RuntimeError
                smaller = scorer.budget_tokens // 2
                loaded = scorer.loaded_model_revision_id == model_revision_id
                if not is_out_of_memory(error) or not loaded or smaller < MINIMUM_TOKENS:
                    raise
                reason = " ".join(str(error).split())[:200]
            # Outside the handler: until the handler ends, the error's frames keep the tensors that did not fit.
            release_memory()
            scorer.budget_tokens = self._fitting[key] = smaller
            log.warning("batch_halved", model_revision=model_revision_id, budget_tokens=smaller, reason=reason)
