"""Texts that a model writes. A text is a function of its prompt, the seed and the parameters alone.

transformers' `generate` continues the prompts in batches, padded on the left. It would draw the tokens of a whole batch
from one random stream, so that a text depended on its neighbours. Here each draw has noise of its own: a token is drawn
by adding standard Gumbel noise to the log-probabilities and taking the largest (Gumbel 1954; Maddison et al. 2014), and
the noise of a token at a step follows from the seed, the prompt's `seed_text`, the step and the token. So a text is the
same alone, in any batch and in any order, as far as the model's numbers are, which padding moves in their last bits.
"""

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from workers.engine.chat import encode_rendered, split_special
from workers.engine.loading import LoadedModel
from workers.errors import EngineError, InterruptedScoringError

GENERATION_TOKENS: Final = {"cpu": 8192, "cuda": 32768}
"""Tokens of one batch, by kind of device: prompts and what is written after them, whose keys and values are held."""

STOP_MARGIN: Final = 8
"""Tokens decoded beyond the length of a stop sequence: some have no text of their own."""

_SAMPLING: Final = ("temperature", "top_k", "top_p", "min_p")


@dataclass(frozen=True)
class GenerationPrompt:
    """A text to continue.

    text: as the model is shown it. seed_text: what makes the prompt's draws its own, such as a digest.
    chat: whether a chat template wrote the text, with the special tokens that belong there.
    """

    text: str
    seed_text: str
    chat: bool = False


@dataclass(frozen=True)
class Generated:
    """What a model wrote.

    text: without special tokens, and up to a stop sequence, which is left out with all that follows it.
    tokens: written by the model, with those of a stop sequence or of the end of the text; at least 1.
    finished: whether it ended by itself or by a stop sequence, and not at the limit of tokens.
    parameters: as `effective_parameters` gives them.
    """

    text: str
    tokens: int
    finished: bool
    parameters: Mapping[str, object]


def effective_parameters(loaded: LoadedModel, generation: Mapping[str, Any]) -> dict[str, object]:
    """A protocol's generation parameters as they apply to this model; plain JSON, decimals as strings.

    generation: `sampling`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, `max_tokens` and `stop`. With `sampling`
    model, each value that the model's generation configuration sets stands in place of the given one (`from_model`
    names them), and its repetition penalty applies; it samples unless its configuration says otherwise. Nothing else of
    that configuration is used, and with `given` and `greedy` nothing but its end-of-text tokens. Temperature 0 is
    greedy. `do_sample` says what is done; where it is false, nothing that only draws depend on is named.
    Raises EngineError for an unknown sampling.
    """
    sampling = generation["sampling"]
    if sampling not in ("model", "given", "greedy"):
        raise EngineError(f"unknown sampling {sampling!r}; use model, given or greedy")
    own = loaded.model.generation_config if sampling == "model" else None
    from_model = [name for name in _SAMPLING if getattr(own, name, None) is not None]
    values = {name: getattr(own, name) if name in from_model else generation[name] for name in _SAMPLING}
    drawn = sampling != "greedy" and getattr(own, "do_sample", None) is not False and float(values["temperature"]) != 0
    parameters: dict[str, object] = {"sampling": sampling, "do_sample": drawn}
    if drawn:
        parameters |= {name: str(values[name]) for name in _SAMPLING if name != "top_k"}
        parameters |= {"top_k": int(values["top_k"]), "seed": int(generation["seed"]), "from_model": from_model}
    return parameters | {
        "repetition_penalty": str(getattr(own, "repetition_penalty", None) or 1.0),
        "max_tokens": int(generation["max_tokens"]),
        "stop": list(generation["stop"]),
        "end_tokens": _end_tokens(loaded),
    }


def _end_tokens(loaded: LoadedModel) -> list[int]:
    """Every token that a model, its configuration or its tokenizer knows as the end of a text or of a turn."""
    known = (
        loaded.model.generation_config.eos_token_id,
        loaded.model.config.get_text_config().eos_token_id,
        loaded.tokenizer.eos_token_id,
    )
    ends: set[int] = set()
    for tokens in known:
        ends |= set(tokens) if isinstance(tokens, (list, tuple)) else {tokens}
    return sorted(token for token in ends if token is not None)


def generate(
    loaded: LoadedModel,
    prompts: Sequence[GenerationPrompt],
    generation: Mapping[str, Any],
    *,
    budget_tokens: int,
    should_stop: Callable[[], bool] | None = None,
) -> list[Generated]:
    """Continues each prompt, in the order given.

    generation: a protocol's parameters, see `effective_parameters`. budget_tokens: of a batch, prompts and what may be
    written after them counted with padding; a longer prompt is continued alone.
    should_stop is asked after each step; a true answer raises InterruptedScoringError.
    Raises EngineError for a prompt that does not fit into the context with what may follow it, for one without tokens,
    and for a model whose numbers overflow.
    """
    parameters = effective_parameters(loaded, generation)
    contexts = [_context(loaded.tokenizer, prompt) for prompt in prompts]
    for context in contexts:
        _check_fits(len(context), int(generation["max_tokens"]), loaded.max_length)
    written: dict[int, Generated] = {}
    for batch in _batches([len(context) for context in contexts], int(generation["max_tokens"]), budget_tokens):
        if should_stop is not None and should_stop():
            raise InterruptedScoringError
        seed_texts = [prompts[index].seed_text for index in batch]
        batch_contexts = [contexts[index] for index in batch]
        written |= zip(batch, _continue(loaded, batch_contexts, seed_texts, parameters, should_stop), strict=True)
    return [written[index] for index in range(len(prompts))]


def _context(tokenizer: Any, prompt: GenerationPrompt) -> list[int]:
    if prompt.chat:
        return encode_rendered(tokenizer, prompt.text)
    # A token that ends every text would tell the model that there is nothing to continue.
    before, own = split_special(tokenizer, prompt.text)
    return before + own


def _check_fits(tokens: int, max_tokens: int, limit: int | None) -> None:
    if tokens == 0:
        raise EngineError("a prompt has no tokens to continue; use a protocol with a non-empty prompt")
    if limit is not None and tokens + max_tokens > limit:
        raise EngineError(
            f"a prompt has {tokens} tokens and up to {max_tokens} may follow, but the model's context is {limit}; use "
            "fewer shots, a lower max_tokens or a model with a longer context"
        )


def _batches(lengths: Sequence[int], max_tokens: int, budget_tokens: int) -> Iterator[list[int]]:
    """Indexes of prompts, longest first, so that a batch that does not fit in memory shows at once."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * (lengths[batch[0]] + max_tokens) > budget_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _continue(
    loaded: LoadedModel,
    contexts: Sequence[Sequence[int]],
    seed_texts: Sequence[str],
    parameters: Mapping[str, Any],
    should_stop: Callable[[], bool] | None,
) -> list[Generated]:
    """One batch."""
    longest = max(map(len, contexts))
    padding = torch.tensor([longest - len(context) for context in contexts])
    input_ids = torch.full((len(contexts), longest), loaded.tokenizer.pad_token_id or 0, dtype=torch.long)
    for row, context in enumerate(contexts):
        input_ids[row, padding[row] :] = torch.tensor(context)
    mask = (torch.arange(longest) >= padding[:, None]).long()
    ends = _Ends(loaded.tokenizer, longest, len(contexts), parameters, should_stop)
    # A second handle on the same weights: `generate` fills whatever a configuration leaves open from the model's own.
    model = copy.copy(loaded.model)
    model.generation_config = GenerationConfig(max_new_tokens=parameters["max_tokens"], do_sample=False, num_beams=1)
    sequences = model.generate(
        input_ids=input_ids.to(loaded.device),
        attention_mask=mask.to(loaded.device),
        generation_config=model.generation_config,
        logits_processor=LogitsProcessorList(_processors(parameters, padding.to(loaded.device), longest, seed_texts)),
        stopping_criteria=StoppingCriteriaList([ends]),
    )
    return [ends.read(row, tokens) for row, tokens in enumerate(sequences[:, longest:].tolist())]


def _processors(
    parameters: Mapping[str, Any], padding: torch.Tensor, longest: int, seed_texts: Sequence[str]
) -> list[LogitsProcessor]:
    """What happens to the logits, in the order in which transformers does it."""
    processors: list[LogitsProcessor] = [_Finite()]
    try:
        if (penalty := float(parameters["repetition_penalty"])) != 1:
            processors.append(RepetitionPenaltyLogitsProcessor(penalty, prompt_ignore_length=padding))
        if parameters["do_sample"]:
            temperature, top_p, min_p = (float(parameters[name]) for name in ("temperature", "top_p", "min_p"))
            processors.append(TemperatureLogitsWarper(temperature))
            if parameters["top_k"] > 0:
                processors.append(TopKLogitsWarper(parameters["top_k"]))
            nucleus: list[LogitsProcessor] = [TopPLogitsWarper(top_p)] if top_p != 1 else []
            nucleus += [MinPLogitsWarper(min_p)] if min_p != 0 else []
            processors.append(SeededDraw(nucleus, parameters["seed"], seed_texts, longest))
    except ValueError as error:
        raise EngineError(
            f"generation parameters cannot be used: {error}; correct the protocol's or the model's generation "
            "configuration"
        ) from None
    return processors


class _Finite(LogitsProcessor):
    """Refuses logits that are no numbers to choose from, which a model gives when its numbers overflow."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:  # noqa: ARG002
        if not scores.max(dim=1).values.isfinite().all():
            raise EngineError(
                "the model gives logits that are not numbers, so no token can be chosen; load it with a wider dtype, "
                "such as "
                "float32"
            )
        return scores


class SeededDraw(LogitsProcessor):
    """Draws each row's next token and leaves it as the only one possible.

    warpers: applied to the tokens that are still possible. seed_texts: by row. prompt_tokens: tokens of a row before
    the first that is drawn, padding included.
    """

    def __init__(self, warpers: Sequence[Any], seed: int, seed_texts: Sequence[str], prompt_tokens: int) -> None:
        self._warpers = warpers
        self._seed = seed
        self._seed_texts = seed_texts
        self._prompt_tokens = prompt_tokens

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """scores: (rows, vocabulary); minus infinity for tokens that are not possible."""
        # Few tokens are left after top-k. Sorting them costs nothing; sorting the vocabulary costs more than the model.
        possible = int(scores.isfinite().sum(dim=1).max())
        tokens = scores.topk(possible, dim=1).indices.sort(dim=1).values  # (rows, possible)
        values: Any = scores.gather(1, tokens)
        for warper in self._warpers:
            values = warper(input_ids, values)
        step = input_ids.shape[1] - self._prompt_tokens
        keys = [_key(f"{self._seed}:{step}:{text}") for text in self._seed_texts]
        noise = gumbel_noise(torch.tensor(keys, device=scores.device), tokens)
        drawn = tokens.gather(1, (values.double() + noise).argmax(dim=1, keepdim=True))
        only: Any = torch.full_like(scores, -torch.inf).scatter_(1, drawn, 0.0)
        return only


def _key(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def gumbel_noise(keys: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise, float64, shape of `tokens`: of token t in a row, from output t of the row's SplitMix64.

    keys: int64, shape (rows,). tokens: int64, shape (rows, n).
    """
    uniform = (_shift(split_mix_64(keys[:, None], tokens), 12).double() + 0.5) / 2**52  # in (0, 1)
    return -(-uniform.log()).log()


def split_mix_64(state: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Output number `index`, from 0, of the SplitMix64 generator that starts at `state`, as int64.

    A function of integers that wraps around at 64 bits: the same on every device. Source: Steele, Lea and Flood, Fast
    splittable pseudorandom number generators, OOPSLA 2014.
    """
    mixed = state + (index + 1) * _signed(0x9E3779B97F4A7C15)
    mixed = (mixed ^ _shift(mixed, 30)) * _signed(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ _shift(mixed, 27)) * _signed(0x94D049BB133111EB)
    return mixed ^ _shift(mixed, 31)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


def _shift(value: torch.Tensor, places: int) -> torch.Tensor:
    """Shifted to the right with zeros moved in, where int64 would move its sign in."""
    return (value >> places) & ((1 << (64 - places)) - 1)


class _Ends(StoppingCriteria):
    """Ends each row by itself, at an end-of-text token or a stop sequence, and remembers where."""

    def __init__(
        self,
        tokenizer: Any,
        prompt_tokens: int,
        rows: int,
        parameters: Mapping[str, Any],
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self._tokenizer = tokenizer
        self._prompt_tokens = prompt_tokens
        self._parameters = parameters
        self._should_stop = should_stop
        self._ended: list[int | None] = [None] * rows
        # A token has at least a byte, so that a stop sequence lies within as many tokens as it has bytes.
        self._window = max((len(stop.encode()) for stop in parameters["stop"]), default=0) + STOP_MARGIN

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **_: Any) -> torch.BoolTensor:  # noqa: ARG002
        if self._should_stop is not None and self._should_stop():
            raise InterruptedScoringError
        written = input_ids[:, self._prompt_tokens :]
        for row, recent in enumerate(written[:, -self._window :].tolist()):
            if self._ended[row] is None and self._ends(recent, written[row]):
                self._ended[row] = written.shape[1]
        ended: Any = torch.tensor([length is not None for length in self._ended], device=input_ids.device)
        return ended

    def _ends(self, recent: list[int], written: torch.Tensor) -> bool:
        if recent[-1] in self._parameters["end_tokens"]:
            return True
        # The whole text is decoded only where its end holds a stop sequence, not at each step.
        return self._stop(self._text(recent)) is not None and self._stop(self._text(written.tolist())) is not None

    def _stop(self, text: str) -> int | None:
        """Where the first stop sequence begins."""
        found = [text.find(stop) for stop in self._parameters["stop"]]
        return min((place for place in found if place >= 0), default=None)

    def _text(self, tokens: list[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    def read(self, row: int, tokens: list[int]) -> Generated:
        """What a row says; tokens: all that were written in it, and padding."""
        ended = self._ended[row]
        written = tokens[:ended]
        shown = written[:-1] if written[-1] in self._parameters["end_tokens"] else written
        text = self._text(shown)
        stop = self._stop(text)
        return Generated(text[:stop], len(written), ended is not None or stop is not None, self._parameters)
