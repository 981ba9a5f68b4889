"""The engines that score prompts with a loaded model.

trie        the token trie, each shared token computed once (default)
batched     batches of similar length, every prompt computed in full
reference   one prompt at a time; slow, the others are tested against it
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from workers.engine.batched import BATCH_TOKENS, continuations_batched, score_batched
from workers.engine.batching import why_equal_lengths
from workers.engine.forward import refusal
from workers.engine.loading import LoadedModel
from workers.engine.reference import continuations_reference, score_reference
from workers.engine.trie_engine import TrieEngine
from workers.errors import EngineError, InterruptedScoringError
from workers.tokens import ScoredPrompts, ScoringPrompt

ENGINES: Final = ("trie", "batched", "reference")


class Engine(Protocol):
    """The interface of an engine: prompts in, log-probabilities out.

    budget_tokens: number of tokens that the model computes at once; lower it when memory runs out.
    """

    budget_tokens: int

    def score(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return the log-probability of each continuation's first token."""
        ...

    def score_continuations(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of whole continuations, summed over their tokens."""
        ...

    def settings(self) -> dict[str, object]:
        """Return the settings that could change the last bits of a number."""
        ...


class BatchedEngine:
    """Scores prompts in batches, every prompt in full."""

    def __init__(self, loaded: LoadedModel, *, budget_tokens: int | None = None, because: str | None = None) -> None:
        """Prepare the engine. because: why it is used instead of the trie, unless the user chose it."""
        self._loaded = loaded
        self._because = because
        self.budget_tokens = budget_tokens or BATCH_TOKENS

    def score(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of each continuation's first token."""
        return score_batched(self._loaded, prompts, batch_tokens=self.budget_tokens, should_stop=should_stop)

    def score_continuations(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of whole continuations, summed over their tokens."""
        return continuations_batched(self._loaded, prompts, batch_tokens=self.budget_tokens, should_stop=should_stop)

    def settings(self) -> dict[str, object]:
        """Return the settings that could change the last bits of a number."""
        settings: dict[str, object] = {"engine": "transformers-batched", "batch_tokens": self.budget_tokens}
        equal = why_equal_lengths(self._loaded.model)
        settings |= {} if equal is None else {"equal_lengths": equal}
        return settings | ({"because": self._because} if self._because else {})


class ReferenceEngine:
    """Scores one prompt at a time."""

    def __init__(self, loaded: LoadedModel) -> None:
        self._loaded = loaded
        self.budget_tokens = 1

    def score(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of each continuation's first token."""
        return _one_by_one(lambda prompt: score_reference(self._loaded, [prompt]), prompts, should_stop)

    def score_continuations(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of whole continuations, summed over their tokens."""
        return _one_by_one(lambda prompt: continuations_reference(self._loaded, [prompt]), prompts, should_stop)

    def settings(self) -> dict[str, object]:
        """Return the engine's name: no setting could change the last bits of a number."""
        return {"engine": "transformers-reference"}


def _one_by_one(
    score: Callable[[ScoringPrompt], ScoredPrompts],
    prompts: Sequence[ScoringPrompt],
    should_stop: Callable[[], bool] | None,
) -> ScoredPrompts:
    logprobs, tokens = [], 0
    for prompt in prompts:
        if should_stop is not None and should_stop():
            raise InterruptedScoringError
        scored = score(prompt)
        logprobs += scored.logprobs
        tokens += scored.tokens_computed
    return ScoredPrompts(logprobs, tokens, tokens)


def open_engine(
    loaded: LoadedModel,
    name: str = "trie",
    *,
    budget_tokens: int | None = None,
    memory_bytes: int | None = None,
    canonical: bool | None = None,
) -> Engine:
    """Return the engine of that name for a model; the batched engine for a model that the trie cannot score.

    canonical: True for numbers whose bits depend on the prompt alone, or an EngineError if that is not possible; False
    for the fast mode; None for the canonical mode if the model and the machine support it. Raises EngineError for an
    unknown name.
    """
    if canonical and name != "trie":
        raise EngineError(f"the engine {name!r} has no canonical mode; use the engine 'trie'")
    if name == "trie":
        reason = refusal(loaded.model)
        if reason is None or canonical:
            return TrieEngine(loaded, budget_tokens=budget_tokens, memory_bytes=memory_bytes, canonical=canonical)
        on_cpu = loaded.device.type == "cpu"  # passes on a CPU are smaller than a batch
        return BatchedEngine(loaded, budget_tokens=None if on_cpu else budget_tokens, because=reason)
    if name == "batched":
        return BatchedEngine(loaded, budget_tokens=budget_tokens)
    if name == "reference":
        return ReferenceEngine(loaded)
    raise EngineError(f"unknown engine {name!r}; use one of {', '.join(ENGINES)}")
