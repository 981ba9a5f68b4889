"""Texts that a model writes. A text depends on its prompt, the seed and the parameters alone.

Each draw has its own noise: a token is drawn by adding standard Gumbel noise to the log-probabilities and taking the
largest (Gumbel 1954; Maddison et al. 2014), and the noise of a token at a step follows from the seed, the prompt's
`seed_text`, the step and the token. So a text is the same alone, in any batch and in any order, as far as the model's
numbers are the same: padding changes their last bits.

Thoughts are long, and of very different lengths, so a batch is not sized for its longest possible text. It begins with
the prompts that fit with a small part of their answers; rows that have ended leave it; and when the stored keys and
values no longer fit, the shortest texts wait and are read again in a later batch. A common beginning of several prompts
is computed once, and so is a prompt that is answered several times.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from transformers import (
    LogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from workers.engine.batching import is_alone, length_dependent, why_equal_lengths
from workers.engine.chat import encode_rendered, split_special
from workers.engine.loading import LoadedModel, gather_tokens
from workers.engine.reading import Reading
from workers.errors import EngineError, InterruptedScoringError

GENERATION_TOKENS: Final = {"cpu": 8192, "cuda": 32768}
"""Tokens whose keys and values a batch stores, by kind of device: prompts and answers."""

CPU_CACHE_BYTES: Final = 4 << 30
"""Memory for keys and values on the CPU, half of it used."""

MOST_ROWS: Final = {"cpu": 64, "cuda": 256}
"""Number of texts written at once, by kind of device; more texts are not written faster."""

ROOM_TOKENS: Final = 256
"""Number of tokens after each prompt for which a new batch has memory."""

LEAST_ROOM: Final = 1024
"""Tokens that a model's context must leave after a prompt if it ends before the protocol's limit of tokens."""

STOP_MARGIN: Final = 8
"""Tokens decoded beyond the length of a stop sequence, since some tokens have no text."""

_SAMPLING: Final = ("temperature", "top_k", "top_p", "min_p")


@dataclass(frozen=True)
class ThoughtLimit:
    """The limit of a thought, for a text that is still a thought after `tokens` tokens.

    closing: returns the text that closes the thought so far; None if the text is not a thought. answers: whether that
    text is appended and the answer follows; otherwise the text ends there.
    """

    tokens: int
    closing: Callable[[str], str | None]
    answers: bool


@dataclass(frozen=True)
class GenerationPrompt:
    """A text to continue.

    text: the prompt in the model's form. seed_text: makes the prompt's draws its own, such as a digest. chat: whether a
    chat template wrote the text, including its special tokens.
    limit: the limit of its thought; None if only the whole text has a limit.
    """

    text: str
    seed_text: str
    chat: bool = False
    limit: ThoughtLimit | None = None


@dataclass(frozen=True)
class Generated:
    """A model's text.

    text: ends before the first stop sequence, and contains no special tokens except markers of thoughts. tokens: number
    written by the model, including a stop sequence or the end of the text; at least 1. finished: whether the text ended
    by itself or by a stop sequence, and not at a limit of tokens. parameters: as returned by `effective_parameters`.
    forced: whether its thought was closed at the limit, by tokens that count as its own. beginning: returns the text of
    a number of first tokens.
    """

    text: str
    tokens: int
    finished: bool
    parameters: Mapping[str, object]
    forced: bool = False
    beginning: Callable[[int], str] = field(default=lambda _: "", compare=False, repr=False)


@dataclass(frozen=True)
class Counted:
    """Numbers of tokens. prompts: in all prompts. computed: in prompts that the model computed."""

    prompts: int
    computed: int


def effective_parameters(loaded: LoadedModel, generation: Mapping[str, Any]) -> dict[str, object]:
    """Return a protocol's generation parameters as they apply to this model; plain JSON, decimals as strings.

    generation: `sampling`, `temperature`, `top_k`, `top_p`, `min_p`, `seed`, `max_tokens` and `stop`. With `sampling`
    model, each value that the model's generation configuration sets replaces the given one (`from_model` names them),
    and its repetition penalty applies; it samples unless its configuration forbids it. Nothing else of that
    configuration is used, and with `given` and `greedy` nothing but its end-of-text tokens. Temperature 0 is greedy.
    `do_sample` states the effective mode; if it is false, parameters of draws are left out.
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
    """Return the tokens that end a text or a turn, according to the model, its configuration or its tokenizer."""
    stated = (
        loaded.model.generation_config.eos_token_id,
        loaded.model.config.get_text_config().eos_token_id,
        loaded.tokenizer.eos_token_id,
    )
    return sorted(gather_tokens(stated))


def generate_counted(
    loaded: LoadedModel,
    prompts: Sequence[GenerationPrompt],
    generation: Mapping[str, Any],
    *,
    budget_tokens: int,
    should_stop: Callable[[], bool] | None = None,
    kept_special: Callable[[str], bool] = lambda _: False,
    done: Callable[[int, Generated], None] = lambda _index, _generated: None,
    stepped: Callable[[int], None] = lambda _tokens: None,
) -> tuple[list[Generated], Counted]:
    """Continue each prompt; return the texts in the order of the prompts, and the numbers of tokens.

    generation: a protocol's parameters, see `effective_parameters`. budget_tokens: tokens whose keys and values are
    stored at once, padding included; a longer text is continued alone. kept_special: returns whether a special token
    stays in the text. done: receives each text, with the prompt's place, as soon as it has ended. stepped: receives the
    number of tokens of each step. should_stop is called after each step; a true result raises InterruptedScoringError.
    A text that may exceed the model's context is cut off at its end, as at a limit.
    Raises EngineError for a prompt without tokens, for a prompt that leaves less of the context than both LEAST_ROOM
    tokens and the limit, and for a model whose numbers overflow.
    """
    writer = _Writer(loaded, effective_parameters(loaded, generation), should_stop, kept_special, done, stepped)
    contexts = [context_of(loaded.tokenizer, prompt) for prompt in prompts]
    for context in contexts:
        check_fits(len(context), int(generation["max_tokens"]), loaded.max_length)
    most = int(generation["max_tokens"])
    room = [
        most if loaded.max_length is None else min(most, loaded.max_length - len(prompt_tokens))
        for prompt_tokens in contexts
    ]
    rows = [_Row(index, prompts[index], context, room[index]) for index, context in enumerate(contexts)]
    # Longest first, so that a lack of memory shows at once; equal prompts are adjacent.
    rows.sort(key=lambda row: (-len(row.context), row.context, row.index))
    return writer.write(rows, budget_tokens), Counted(sum(map(len, contexts)), writer.computed)


def cache_tokens(loaded: LoadedModel) -> int:
    """Return the number of tokens whose keys and values fit into half of the free memory, at least 1,024.

    GENERATION_TOKENS if the model's configuration does not state their size.
    """
    kind = loaded.device.type
    config = loaded.model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    layers, width = getattr(config, "num_hidden_layers", None), getattr(config, "hidden_size", None)
    if not heads or not layers or not width:
        return GENERATION_TOKENS.get(kind, GENERATION_TOKENS["cpu"])
    each = getattr(config, "head_dim", None) or width // heads
    kept = getattr(config, "num_key_value_heads", None) or heads
    # Twice: a step copies the keys and values of a layer when it adds new ones.
    size = 2 * 2 * layers * kept * each * loaded.model.dtype.itemsize
    free = torch.cuda.mem_get_info(loaded.device)[0] if kind == "cuda" else CPU_CACHE_BYTES
    return max(1024, int(free) // 2 // size)


def context_of(tokenizer: Any, prompt: GenerationPrompt) -> list[int]:
    """Return the token ids of a prompt, without an end-of-text token."""
    if prompt.chat:
        return encode_rendered(tokenizer, prompt.text)
    # An end-of-text token would signal to the model that nothing follows.
    before, own = split_special(tokenizer, prompt.text)
    return before + own


def check_fits(tokens: int, max_tokens: int, limit: int | None) -> None:
    """Check that a prompt leaves enough of the context for its answer. Raises EngineError otherwise."""
    if tokens == 0:
        raise EngineError("a prompt has no tokens to continue; use a protocol with a non-empty prompt")
    if limit is not None and limit - tokens < min(max_tokens, LEAST_ROOM):
        raise EngineError(
            f"a prompt has {tokens} tokens and up to {max_tokens} may follow, but the model's context is {limit}; use "
            "fewer shots, a lower max_tokens or a model with a longer context"
        )


@dataclass(eq=False)
class _Row:
    """A text in progress. most: limit of its tokens. to_come: tokens that follow whatever the model predicts."""

    index: int
    prompt: GenerationPrompt
    context: list[int]
    most: int
    written: list[int] = field(default_factory=list)
    to_come: deque[int] = field(default_factory=deque)
    forced: bool = False

    @property
    def all(self) -> list[int]:
        return self.context + self.written


class _Writer:
    """Writes texts in batches. computed: tokens of prompts that the model computed."""

    def __init__(
        self,
        loaded: LoadedModel,
        parameters: Mapping[str, Any],
        should_stop: Callable[[], bool] | None,
        kept_special: Callable[[str], bool],
        done: Callable[[int, Generated], None],
        stepped: Callable[[int], None],
    ) -> None:
        self._loaded = loaded
        self._parameters = parameters
        self._should_stop = should_stop
        self._done = done
        self._stepped = stepped
        self._text = _Decoder(loaded.tokenizer, kept_special)
        # A token has at least one byte, so a stop sequence has at most as many tokens as bytes.
        self._window = max((len(stop.encode()) for stop in parameters["stop"]), default=0) + STOP_MARGIN
        self._written: dict[int, Generated] = {}
        self._one_length = why_equal_lengths(loaded.model) is not None
        self.computed = 0

    def write(self, rows: Sequence[_Row], budget_tokens: int) -> list[Generated]:
        """Write all texts; return them in the order of `index`."""
        waiting = deque(rows)
        while waiting:
            if self._should_stop is not None and self._should_stop():
                raise InterruptedScoringError
            batch = self._next_batch(waiting, budget_tokens)
            # Rows that did not fit any more come first in the next batch.
            waiting.extendleft(reversed(self._continue(batch, budget_tokens)))
        return [self._written[index] for index in range(len(rows))]

    def _next_batch(self, waiting: deque[_Row], budget_tokens: int) -> list[_Row]:
        batch: list[_Row] = []
        longest = 0
        most = MOST_ROWS.get(self._loaded.device.type, MOST_ROWS["cpu"])
        # A text that is read again is rotated by its present length.
        if length_dependent(self._loaded.model) or is_alone(self._loaded.model):
            most = 1
        while waiting and len(batch) < most:
            row = waiting[0]
            if batch and self._one_length and len(row.all) != len(batch[0].all):
                break
            room = min(ROOM_TOKENS, row.most - len(row.written))
            length = max(longest, len(row.all) + room)
            if batch and (len(batch) + 1) * length > budget_tokens:
                break
            longest = length
            batch.append(waiting.popleft())
        return batch

    @torch.inference_mode()
    def _continue(self, rows: list[_Row], budget_tokens: int) -> list[_Row]:
        """Write until every row has ended or no longer fits; return the rows that no longer fit."""
        given_back: list[_Row] = []
        state = Reading.of(self._loaded, [row.all for row in rows])
        # Only tokens that are read for the first time count: the prompts of rows that begin.
        self.computed += state.computed({tuple(row.context) for row in rows if not row.written})
        processors = self._processors(rows, state)
        while True:
            drawn = self._draw(rows, state, processors)
            for row, token in zip(rows, drawn, strict=True):
                row.written.append(token)
            self._stepped(len(rows))
            if self._should_stop is not None and self._should_stop():
                raise InterruptedScoringError
            going_on = [place for place, row in enumerate(rows) if not self._has_ended(row)]
            fit = max(1, budget_tokens // (state.length + 1))
            if len(going_on) > fit:
                by_written = sorted(going_on, key=lambda place: -len(rows[place].written))
                given_back += [rows[place] for place in sorted(by_written[fit:])]
                going_on = sorted(by_written[:fit])
            if not going_on:
                return given_back
            tokens = [drawn[place] for place in going_on]
            if len(going_on) < len(rows):
                rows = [rows[place] for place in going_on]
                state.keep(going_on)
                processors = self._processors(rows, state, ahead=1)
            state.step(tokens)

    def _draw(self, rows: Sequence[_Row], state: Reading, processors: Sequence[LogitsProcessor]) -> list[int]:
        """Draw the next token of each row."""
        scores: Any = state.logits
        for processor in processors:
            scores = processor(state.tokens, scores)
        likeliest: list[int] = scores.argmax(dim=1).tolist()
        return [row.to_come.popleft() if row.to_come else token for row, token in zip(rows, likeliest, strict=True)]

    def _processors(self, rows: Sequence[_Row], state: Reading, ahead: int = 0) -> list[LogitsProcessor]:
        """Return the logits processors. ahead: number of the rows' tokens that the state does not include yet."""
        begun = [state.length + ahead - len(row.written) for row in rows]
        return _processors(self._parameters, state.padding, begun, [row.prompt.seed_text for row in rows])

    def _has_ended(self, row: _Row) -> bool:
        """Return whether a row has ended; if so, store its text and pass it to `done`."""
        recent = row.written[-self._window :]
        ended = row.written[-1] in self._parameters["end_tokens"] and not row.to_come
        if not ended and self._stop(self._text(recent)) is not None:
            # The whole text is decoded only if its end contains a stop sequence, not at each step.
            ended = self._stop(self._text(row.written)) is not None
        if not ended and len(row.written) < row.most and not self._cut_off(row):
            return False
        shown = row.written[:-1] if row.written[-1] in self._parameters["end_tokens"] else row.written
        text = self._text(shown)
        stop = self._stop(text)
        finished = ended or stop is not None
        generated = Generated(
            text[:stop],
            len(row.written),
            finished,
            self._parameters,
            row.forced,
            lambda tokens: self._text(shown[:tokens]),
        )
        self._written[row.index] = generated
        self._done(row.index, generated)
        return True

    def _cut_off(self, row: _Row) -> bool:
        """Return whether a thought at its limit ends a row; queue the closing tokens if an answer is to follow."""
        limit = row.prompt.limit
        if limit is None or row.forced or len(row.written) != limit.tokens:
            return False
        closing = limit.closing(self._text(row.written))
        if closing is None or not limit.answers:
            return closing is not None
        row.to_come.extend(self._loaded.tokenizer(closing, add_special_tokens=False)["input_ids"])
        row.forced = True
        return False

    def _stop(self, text: str) -> int | None:
        """Return the position of the first stop sequence; None without one."""
        return first_stop(self._parameters["stop"], text)


def first_stop(stops: Sequence[str], text: str) -> int | None:
    """Return the position of a text's first stop sequence; None without one."""
    return min((place for place in map(text.find, stops) if place >= 0), default=None)


def decoder_of(tokenizer: Any, kept_special: Callable[[str], bool]) -> Callable[[Sequence[int]], str]:
    """Return a function from tokens to text, which leaves out special tokens unless `kept_special` is true for them."""
    return _Decoder(tokenizer, kept_special)


class _Decoder:
    """Decodes tokens, leaving out special tokens except the kept ones."""

    def __init__(self, tokenizer: Any, kept: Callable[[str], bool]) -> None:
        self._tokenizer = tokenizer
        special = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
        special |= {
            token: str(added.content) for token, added in tokenizer.added_tokens_decoder.items() if added.special
        }
        self._dropped = {token for token, text in special.items() if not kept(text)}
        self._keeps = len(self._dropped) < len(special)

    def __call__(self, tokens: Sequence[int]) -> str:
        shown = [token for token in tokens if token not in self._dropped] if self._keeps else list(tokens)
        text: str = self._tokenizer.decode(
            shown, skip_special_tokens=not self._keeps, clean_up_tokenization_spaces=False
        )
        return text


def _processors(
    parameters: Mapping[str, Any], padding: torch.Tensor, begun: Sequence[int], seed_texts: Sequence[str]
) -> list[LogitsProcessor]:
    """Return the logits processors, in transformers' order. begun: see SeededDraw."""
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
            processors.append(SeededDraw(nucleus, parameters["seed"], seed_texts, begun))
    except ValueError as error:
        raise EngineError(
            f"generation parameters cannot be used: {error}; correct the protocol's or the model's generation "
            "configuration"
        ) from None
    return processors


class _Finite(LogitsProcessor):
    """Raises EngineError if logits are not finite, because a model's numbers overflow."""

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:  # noqa: ARG002
        if not scores.max(dim=1).values.isfinite().all():
            raise EngineError(
                "the model gives logits that are not numbers, so no token can be chosen; load it with a wider dtype, "
                "such as "
                "float32"
            )
        return scores


class SeededDraw(LogitsProcessor):
    """Draws each row's next token and makes all other tokens impossible.

    warpers: applied to the tokens that are still possible. seed_texts: by row. begun: by row, the number of tokens
    before the first drawn one, padding included.
    """

    def __init__(self, warpers: Sequence[Any], seed: int, seed_texts: Sequence[str], begun: Sequence[int]) -> None:
        self._warpers = warpers
        self._seed = seed
        self._seed_texts = seed_texts
        self._begun = begun

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        """Return the scores, (rows, vocabulary), with minus infinity for all but the drawn tokens."""
        # After top-k few tokens are left. Sorting them costs nothing; sorting the vocabulary costs more than the model.
        possible = int(scores.isfinite().sum(dim=1).max())
        tokens = scores.topk(possible, dim=1).indices.sort(dim=1).values  # (rows, possible)
        values: Any = scores.gather(1, tokens)
        for warper in self._warpers:
            values = warper(input_ids, values)
        steps = [input_ids.shape[1] - begun for begun in self._begun]
        keys = [_key(f"{self._seed}:{step}:{text}") for step, text in zip(steps, self._seed_texts, strict=True)]
        noise = gumbel_noise(torch.tensor(keys, device=scores.device), tokens)
        drawn = tokens.gather(1, (values.double() + noise).argmax(dim=1, keepdim=True))
        only: Any = torch.full_like(scores, -torch.inf).scatter_(1, drawn, 0.0)
        return only


def _key(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def gumbel_noise(keys: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return standard Gumbel noise, float64, shape of `tokens`: for token t of a row, from output t of its SplitMix64.

    keys: int64, shape (rows,). tokens: int64, shape (rows, n).
    """
    uniform = (_shift(split_mix_64(keys[:, None], tokens), 12).double() + 0.5) / 2**52  # in (0, 1)
    return -(-uniform.log()).log()


def split_mix_64(state: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return output number `index`, from 0, of the SplitMix64 generator that starts at `state`, as int64.

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
    """Shift to the right, filling with zeros; int64 would fill with its sign."""
    return (value >> places) & ((1 << (64 - places)) - 1)
