"""One model, loaded here or on an endpoint, asked a shard's prompts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Protocol

from registry.prompting.prompts import Prompt
from registry.queue.claims import Claim
from registry.results.prompts import ShardPrompt
from workers.fingerprint import driver_version

ShouldStop = Callable[[], bool]


class Scores(Protocol):
    """Log-probabilities by prompt and position, None where one is unknown, and tokens counted."""

    logprobs: Sequence[Sequence[float | None]]
    tokens_naive: int
    tokens_computed: int


@dataclass(frozen=True)
class Written:
    """What a model wrote; tokens: of it, None where they are not counted; finished: not cut off at the limit.

    declined: it refused to answer, or a filter stopped it, so that the text holds no answer.
    """

    text: str
    tokens: int | None
    finished: bool
    declined: bool = False


class AskedModel(Protocol):
    """The interface of a model, wherever it runs."""

    budget_tokens: int

    @property
    def reusable(self) -> bool:
        """Whether the same prompt gives the same number again, so that a result may be reused."""
        ...

    def begin(self, claim: Claim) -> None:
        """The shard that is asked next."""
        ...

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:
        """Log-probabilities of continuations: of their first tokens, or `whole`, summed over their tokens."""
        ...

    def write(
        self, items: Sequence[ShardPrompt], seeds: Sequence[str], generation: Mapping[str, Any], should_stop: ShouldStop
    ) -> tuple[list[Written], int, int]:
        """What the model writes after each prompt; then tokens of the prompts, and of those that were computed.

        seeds: what makes each prompt's draws its own. Repeats of a prompt have the same, and each draws again.
        """
        ...

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """What could change a number of this protocol."""
        ...

    def tokens(self, item: ShardPrompt) -> int:
        """Tokens of a prompt that was not asked."""
        ...

    def close(self) -> None:
        """Releases resources."""
        ...


class LocalModel:
    """A model in this process."""

    reusable: Final = True

    def __init__(self, loaded: Any, engine: Any) -> None:
        self._loaded = loaded
        self._engine = engine

    @property
    def budget_tokens(self) -> int:
        """Tokens that go through the model at once when it scores; writing takes them in proportion."""
        return self._engine.budget_tokens

    @budget_tokens.setter
    def budget_tokens(self, tokens: int) -> None:
        self._engine.budget_tokens = tokens

    def begin(self, claim: Claim) -> None:
        """Its answers do not depend on the shard."""

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:
        """Log-probabilities of continuations."""
        from workers.engine import ScoringPrompt

        prompts = [
            ScoringPrompt(self._text(item.prompt), item.prompt.continuations, item.question_id, _is_chat(item.prompt))
            for item in items
        ]
        score = self._engine.score_continuations if whole else self._engine.score
        scores: Scores = score(prompts, should_stop=should_stop)
        return scores

    def write(
        self, items: Sequence[ShardPrompt], seeds: Sequence[str], generation: Mapping[str, Any], should_stop: ShouldStop
    ) -> tuple[list[Written], int, int]:
        """What the model writes after each prompt."""
        from workers.engine import GENERATION_TOKENS, GenerationPrompt, generate
        from workers.engine.trie_engine import BUDGET_TOKENS

        kind = self._loaded.device.type
        budget = GENERATION_TOKENS[kind] * self.budget_tokens // BUDGET_TOKENS[kind]
        prompts = [
            GenerationPrompt(self._text(item.prompt), _repeated(seed, item.variant.repeat), _is_chat(item.prompt))
            for item, seed in zip(items, seeds, strict=True)
        ]
        written = generate(self._loaded, prompts, generation, budget_tokens=budget, should_stop=should_stop)
        tokens = sum(self.tokens(item) for item in items) + sum(text.tokens for text in written)
        return [Written(text.text, text.tokens, text.finished) for text in written], tokens, tokens

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """Of the engine that scores, or of how text is written; with device, precision and threads."""
        import torch

        from workers.engine import effective_parameters

        settings: dict[str, object] = self._engine.settings()
        if "generation" in definition:
            settings = {
                "engine": "transformers-generate",
                "budget_tokens": self.budget_tokens,
                "generation": effective_parameters(self._loaded, definition["generation"]),
            }
        device = self._loaded.device
        if device.type == "cuda":
            settings |= {"driver": driver_version(), "cuda": torch.version.cuda}
        if self._loaded.adapter is not None:
            settings |= {"adapter": self._loaded.adapter, "peft": version("peft")}
        return settings | {
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "dtype": self._loaded.dtype,
            "quantisation": self._loaded.quantisation,
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        }

    def tokens(self, item: ShardPrompt) -> int:
        """Tokens of a prompt."""
        return len(self._loaded.tokenizer(self._text(item.prompt))["input_ids"])

    def close(self) -> None:
        """Only memory is held."""

    def _text(self, prompt: Prompt) -> str:
        from workers.engine import render_chat

        turns = turns_of(prompt)
        if turns is None:
            return prompt.text
        opened = turns.pop()["content"] if turns[-1]["role"] == "assistant" else ""
        return render_chat(self._loaded, turns, open_with=opened)


class EndpointModel:
    """A model on an endpoint."""

    reusable: Final = False

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.budget_tokens: int = engine.budget_tokens

    def begin(self, claim: Claim) -> None:
        """Its answers do not depend on the shard."""

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:
        """Log-probabilities of continuations."""
        score = self._engine.score_continuations if whole else self._engine.score
        scores: Scores = score([item.prompt for item in items], should_stop=should_stop)
        return scores

    def write(
        self, items: Sequence[ShardPrompt], seeds: Sequence[str], generation: Mapping[str, Any], should_stop: ShouldStop
    ) -> tuple[list[Written], int, int]:
        """What the model writes after each prompt; prompts are not counted."""
        from workers.endpoint import EndpointPrompt

        prompts = [
            EndpointPrompt(
                item.prompt.text,
                seed,
                turns_of(item.prompt),
                item.variant.repeat,
            )
            for item, seed in zip(items, seeds, strict=True)
        ]
        written = self._engine.generate(prompts, generation, should_stop)
        tokens = sum(text.tokens or 0 for text in written)
        return [Written(text.text, text.tokens, text.finished) for text in written], tokens, tokens

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """What the server says about itself, and the request parameters."""
        settings: dict[str, object] = {**self._engine.settings(), "device": "endpoint"}
        if "generation" in definition:
            settings["generation"] = dict(definition["generation"])
        return settings

    def tokens(self, item: ShardPrompt) -> int:  # noqa: ARG002 - an endpoint's tokenizer is not known
        """Not known."""
        return 0

    def close(self) -> None:
        """Closes the connections."""
        self._engine.close()


def turns_of(prompt: Prompt) -> list[dict[str, str]] | None:
    """The turns of a conversation; None where the prompt is a text."""
    if prompt.messages is None:
        return None
    return [{"role": turn.role, "content": turn.content} for turn in prompt.messages]


def _repeated(seed: str, repeat: int) -> str:
    """What makes the draws of a repeat its own; a prompt's first answer has those that it has without repeats."""
    return f"{seed}:{repeat}" if repeat else seed


def _is_chat(prompt: Prompt) -> bool:
    return prompt.messages is not None
