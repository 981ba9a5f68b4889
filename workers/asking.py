"""A model, loaded here or served by an endpoint, that answers the prompts of a shard."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Protocol

from registry.predictions.prompts import ShardPrompt
from registry.prompting.prompts import Prompt
from registry.prompting.thoughts import Markers, Output, Thinking, divide, markers_of, opens_thought, thinking_of
from registry.queue.claims import Claim
from workers.errors import EngineError
from workers.thoughts import (
    closing_of,
    family_opened,
    marks_thoughts,
    template_arguments,
    tokens_of_thought,
)
from workers.written import Keep, ShouldStop, WritingSpeed, Written, forget

if TYPE_CHECKING:
    from workers.engine import Generated, GenerationPrompt, ThoughtLimit
    from workers.engine.generation import Counted


class Scores(Protocol):
    """Log-probabilities by prompt and position, None if unknown, and the counted tokens."""

    logprobs: Sequence[Sequence[float | None]]
    tokens_naive: int
    tokens_computed: int


class AskedModel(Protocol):
    """The interface of a model, wherever it runs."""

    budget_tokens: int

    @property
    def journals(self) -> bool:
        """Return whether the model stores its answers itself, as they arrive."""
        ...

    @property
    def reusable(self) -> bool:
        """Return whether the same prompt gives the same number again, so that a result may be reused."""
        ...

    def begin(self, claim: Claim) -> None:
        """Set the shard whose prompts follow."""
        ...

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:
        """Return log-probabilities of the first tokens of continuations or, if `whole`, sums over all their tokens."""
        ...

    def write(
        self,
        items: Sequence[ShardPrompt],
        seeds: Sequence[str],
        definition: Mapping[str, Any],
        should_stop: ShouldStop,
        keep: Keep = forget,
    ) -> tuple[list[Written], int, int]:
        """Return the model's text for each prompt; then the tokens of prompts and texts, and the computed ones.

        definition: the protocol's definition.
        seeds: for each prompt the text that makes its draws its own; repeats of a prompt share it, and each draws
        again.
        """
        ...

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """Return the settings that could change a number of this protocol."""
        ...

    def tokens(self, item: ShardPrompt) -> int:
        """Return the number of tokens of a prompt that was not scored."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


class LocalModel:
    """A model in this process."""

    reusable: Final = True
    journals: Final = False

    def __init__(self, loaded: Any, engine: Any) -> None:
        self._loaded = loaded
        self._engine = engine

    @property
    def budget_tokens(self) -> int:
        """Return the number of tokens computed at once while scoring; writing uses a proportional number."""
        return self._engine.budget_tokens

    @budget_tokens.setter
    def budget_tokens(self, tokens: int) -> None:
        self._engine.budget_tokens = tokens

    def begin(self, claim: Claim) -> None:
        """Do nothing: answers do not depend on the shard."""

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:
        """Return log-probabilities of continuations."""
        from workers.engine import ScoringPrompt

        prompts = [
            ScoringPrompt(self._text(item.prompt), item.prompt.continuations, item.question_id, _is_chat(item.prompt))
            for item in items
        ]
        score = self._engine.score_continuations if whole else self._engine.score
        scores: Scores = score(prompts, should_stop=should_stop)
        return scores

    def write(
        self,
        items: Sequence[ShardPrompt],
        seeds: Sequence[str],
        definition: Mapping[str, Any],
        should_stop: ShouldStop,
        keep: Keep = forget,
    ) -> tuple[list[Written], int, int]:
        """Return the model's text for each prompt."""
        from workers.engine import GenerationPrompt

        generation, markers = definition["generation"], markers_of(definition)
        thinking = thinking_of(generation)
        texts = [self._text(item.prompt, template_arguments(thinking)) for item in items]
        opened = [
            _is_chat(item.prompt) and opens_thought(text, markers) for item, text in zip(items, texts, strict=True)
        ]
        prompts = [
            GenerationPrompt(
                text,
                _seed_of_repeat(seed, item.variant.repeat),
                _is_chat(item.prompt),
                _limit(thinking, text, markers, opened=open_now),
            )
            for item, seed, text, open_now in zip(items, seeds, texts, opened, strict=True)
        ]
        if any(item.variant.repeat for item in items):
            self._check_samples(generation)
        speed = WritingSpeed(len(items), int(generation["max_tokens"]))
        by_place: dict[int, Written] = {}

        def done(place: int, text: "Generated") -> None:
            output = Output(
                text.text, finish="stop" if text.finished else "length", opened=opened[place], forced=text.forced
            )
            thought = tokens_of_thought(text.text, divide(output, markers), text.tokens, text.beginning)
            by_place[place] = Written(output, text.tokens, thought, speed.ended(text.tokens))
            keep(place, by_place[place])

        special = partial(marks_thoughts, markers=markers)
        texts_written, counted = self._continue(prompts, generation, should_stop, special, done, speed.step)
        tokens = sum(text.tokens for text in texts_written)
        written = [by_place[place] for place in range(len(items))]
        return written, counted.prompts + tokens, counted.computed + tokens

    def _continue(
        self,
        prompts: "Sequence[GenerationPrompt]",
        generation: Mapping[str, Any],
        should_stop: ShouldStop,
        kept_special: Callable[[str], bool],
        done: "Callable[[int, Generated], None]",
        stepped: Callable[[int], None],
    ) -> "tuple[list[Generated], Counted]":
        """Continue the prompts with `generate_counted`."""
        from workers.engine import cache_tokens, generate_counted
        from workers.engine.trie_engine import BUDGET_TOKENS

        return generate_counted(
            self._loaded,
            prompts,
            generation,
            budget_tokens=cache_tokens(self._loaded) * self.budget_tokens // BUDGET_TOKENS[self._loaded.device.type],
            should_stop=should_stop,
            kept_special=kept_special,
            done=done,
            stepped=stepped,
        )

    def _check_samples(self, generation: Mapping[str, Any]) -> None:
        """Raise EngineError if the protocol repeats prompts and the model's own configuration does not sample."""
        from workers.engine import effective_parameters

        if not effective_parameters(self._loaded, generation)["do_sample"]:
            raise EngineError(
                "the model's own generation configuration does not sample, so that repeats of a prompt give the same "
                'answer; leave out repeats, or use a protocol with sampling = "given"'
            )

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """Return the settings of the scoring engine or of text generation, with device, precision and threads."""
        import torch

        from workers.engine import effective_parameters

        settings: dict[str, object] = self._engine.settings()
        if "generation" in definition:
            settings = self._writing_settings() | {
                "generation": effective_parameters(self._loaded, definition["generation"]),
                "markers": markers_of(definition).digest,
            }
        if self._loaded.adapter is not None:
            settings |= {"adapter": self._loaded.adapter, "peft": version("peft")}
        settings |= {"dtype": self._loaded.dtype, "quantisation": self._loaded.quantisation}
        device = self._loaded.device
        if device.type == "cuda":  # the host's threads, instructions and driver compute nothing there
            return settings | {"device": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
        return settings | {
            "device": "cpu",
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        }

    def _writing_settings(self) -> dict[str, object]:
        return {"engine": "transformers-generate", "budget_tokens": self.budget_tokens}

    def tokens(self, item: ShardPrompt) -> int:
        """Return the number of tokens in a prompt."""
        return len(self._loaded.tokenizer(self._text(item.prompt))["input_ids"])

    def close(self) -> None:
        """Do nothing: only memory is used."""

    def _text(self, prompt: Prompt, arguments: Mapping[str, Any] | None = None) -> str:
        from workers.engine import render_chat

        turns = turns_of(prompt)
        if turns is None:
            return prompt.text
        opened = turns.pop()["content"] if turns[-1]["role"] == "assistant" else ""
        return render_chat(self._loaded, turns, open_with=opened, arguments=arguments or {})


class VllmModel(LocalModel):
    """A model in vLLM on this host: vLLM computes; tokenising, rendering and reading answers happen here."""

    def _continue(
        self,
        prompts: "Sequence[GenerationPrompt]",
        generation: Mapping[str, Any],
        should_stop: ShouldStop,
        kept_special: Callable[[str], bool],
        done: "Callable[[int, Generated], None]",
        stepped: Callable[[int], None],
    ) -> "tuple[list[Generated], Counted]":
        def ended(place: int, text: "Generated") -> None:
            stepped(text.tokens)
            done(place, text)

        written: tuple[list[Generated], Counted] = self._engine.write(
            prompts, generation, should_stop=should_stop, kept_special=kept_special, done=ended
        )
        return written

    def _writing_settings(self) -> dict[str, object]:
        settings: dict[str, object] = self._engine.settings()
        return settings

    def close(self) -> None:
        """Shut down vLLM."""
        self._engine.close()


class EndpointModel:
    """A model on an endpoint."""

    reusable: Final = False
    journals: Final = False

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.budget_tokens: int = engine.budget_tokens

    def begin(self, claim: Claim) -> None:  # noqa: ARG002 - its answers do not depend on the shard
        """Forget the names that the server returned for earlier shards."""
        self._engine.begin()

    def score(self, items: Sequence[ShardPrompt], *, whole: bool, should_stop: ShouldStop) -> Scores:
        """Return log-probabilities of continuations."""
        score = self._engine.score_continuations if whole else self._engine.score
        scores: Scores = score([item.prompt for item in items], should_stop=should_stop)
        return scores

    def write(
        self,
        items: Sequence[ShardPrompt],
        seeds: Sequence[str],
        definition: Mapping[str, Any],
        should_stop: ShouldStop,
        keep: Keep = forget,
    ) -> tuple[list[Written], int, int]:
        """Return the model's text for each prompt, with tokens as the server counts them."""
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
        answered = self._engine.generate(prompts, definition, should_stop, keep)
        tokens = sum(text.tokens or 0 for text in answered.written)
        return answered.written, answered.prompt_tokens + tokens, answered.computed_tokens + tokens

    def settings(self, definition: Mapping[str, Any]) -> dict[str, object]:
        """Return the server's description of itself, and the request parameters."""
        settings: dict[str, object] = {**self._engine.settings(), "device": "endpoint"}
        if "generation" in definition:
            settings["generation"] = dict(definition["generation"])
            settings["markers"] = markers_of(definition).digest
        return settings

    def tokens(self, item: ShardPrompt) -> int:  # noqa: ARG002 - an endpoint's tokenizer is not known
        """Return 0: the number is not known."""
        return 0

    def close(self) -> None:
        """Close the connections."""
        self._engine.close()


def turns_of(prompt: Prompt) -> list[dict[str, str]] | None:
    """Return the turns of a conversation; None if the prompt is a plain text."""
    if prompt.messages is None:
        return None
    return [{"role": turn.role, "content": turn.content} for turn in prompt.messages]


def _seed_of_repeat(seed: str, repeat: int) -> str:
    """Return the seed text of a repeat; the first answer has the same seed text as without repeats."""
    return f"{seed}:{repeat}" if repeat else seed


def _limit(thinking: Thinking, rendered: str, markers: Markers, *, opened: bool) -> "ThoughtLimit | None":
    """Return the limit of a thought; None if only the whole text has a limit."""
    from workers.engine import ThoughtLimit

    if thinking.max_thought_tokens is None:
        return None
    family = family_opened(rendered, markers) if opened else None
    closing = partial(closing_of, opened=opened, markers=markers, family=family)
    return ThoughtLimit(thinking.max_thought_tokens, closing, thinking.at_limit == "answer")


def _is_chat(prompt: Prompt) -> bool:
    return prompt.messages is not None
