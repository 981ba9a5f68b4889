"""Scores prompts as a token trie: the model computes every distinct beginning once."""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Final

import torch

from workers.engine import canonical as canonical_mode
from workers.engine import tiles
from workers.engine.attention import BLOCK, KEY_MULTIPLE, ROW_MULTIPLE, Pass
from workers.engine.encoding import encode_continuations, encode_labels
from workers.engine.forward import HostedForward, refusal
from workers.engine.fused import FusedForward, can_be_fused
from workers.engine.loading import LoadedModel
from workers.engine.prefixes import KeptPrefixes, shared_ends
from workers.engine.products import Products, bfloat16_by, linear_bytes, onednn_serves, weight_of_each_shape
from workers.engine.readout import VOCABULARY_CHUNK, Readout
from workers.engine.states import PathStates
from workers.engine.trie import TokenTrie, build_trie
from workers.errors import EngineError, InterruptedScoringError
from workers.tokens import (
    ScoredPrompts,
    ScoringPrompt,
    TokenisedPrompt,
    check_length,
    check_logprobs,
)

BUDGET_TOKENS: Final = {"cpu": 2048, "cuda": 16384}
"""Tokens in one pass, or on a GPU in one batch, by kind of device."""

MEMORY_BYTES: Final = 2 << 30
"""Default memory for scoring, in addition to the loaded model."""

READ_ROWS: Final = 512
"""Number of states that go through the vocabulary head together."""

PLANNED_SHARE: Final = 0.9
"""Share of the allowed memory that is planned, since an allocator reserves more than is in use."""

PACKED_SHARE: Final = 0.25
"""Share of the allowed memory for a copy of the weights in the layout that products read fastest."""

UNPLANNED_BYTES: Final = 24 << 20
UNPLANNED_LANE_BYTES: Final = 16 << 20
"""Memory that is not planned, in total and for each thread: products compiled for their shapes, tries, masks."""

MIN_PASS_TOKENS: Final = 32

CHECKED_PASS_TOKENS: Final = 331
"""Tokens in a pass when an engine scores its test prompts alone: they take two passes, cut at an unusual place."""

GOOD_PASS_TOKENS: Final = 256
"""Shorter passes use a core badly, so fewer threads share the memory first."""

MAX_LANES: Final = 8
"""Most threads that compute passes at the same time; with more threads, several share a product."""

PIECE_TOKENS: Final = 1024
"""Nodes that a thread takes at once, about. It changes numbers, so it does not depend on the number of threads."""

Target = tuple[int, int]
"""(steps above a sequence's last token, token id): the log-probability to read after that step."""


class TrieEngine:
    """Scores one model's prompts as token tries; keeps the states of beginnings that later calls share.

    budget_tokens: most tokens of a pass; may be lowered between calls if memory runs out.
    canonical: whether a prompt's numbers have the same bits whatever it is scored with.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        budget_tokens: int | None = None,
        memory_bytes: int | None = None,
        canonical: bool | None = None,
    ) -> None:
        """Prepare the engine. memory_bytes: for packed weights, kept states and activations, besides the loaded model.

        canonical: False for the fast mode; True for the canonical mode, or an EngineError if it is not possible; None
        for the canonical mode if the model and the machine support it. Raises EngineError for a model whose tries the
        tests do not compare with the reference; score it with another engine.
        """
        reason = refusal(loaded.model)
        if reason is not None:
            raise EngineError(f"the trie engine cannot score this model: {reason}; use the batched engine")
        self._loaded = loaded
        self.budget_tokens = budget_tokens or BUDGET_TOKENS["cpu"]
        self.memory_bytes = memory_bytes or MEMORY_BYTES
        weights = linear_bytes(loaded.model) if onednn_serves(loaded.device, loaded.model.dtype) else 0
        self._packed_bytes = weights if PACKED_SHARE * self.memory_bytes >= weights else 0
        self._kept = KeptPrefixes((self.memory_bytes - self._packed_bytes) // 8)
        self._pool: tuple[tuple[int, int], ThreadPoolExecutor] | None = None
        self._readout = Readout(loaded.model)
        self._arithmetic: str | None = None
        self.canonical = canonical is not False
        self._fast_because = None if self.canonical else "it was requested"
        if self.canonical:
            self._fast_because = self._try_canonical()
            self.canonical = self._fast_because is None
        if canonical and self._fast_because is not None:
            raise EngineError(f"the model has no canonical mode here: {self._fast_because}; score it in the fast mode")
        if not self.canonical:
            self._forward = self._choose_forward()

    def _try_canonical(self) -> str | None:
        """Set up the canonical mode; return why it does not work here, or None."""
        model = self._loaded.model
        reason = canonical_mode.refusal(model)
        if reason is None:
            heads, key_heads, size = self._shape()
            weights = weight_of_each_shape(model)
            shape = key_heads, heads // key_heads, size
            reason = self._pool_of(1, 1).submit(canonical_mode.check_products, weights, *shape).result()
        if reason is not None:
            return reason
        self._forward = self._choose_forward()
        prompts = canonical_mode.make_prompts(
            model.config.get_text_config().vocab_size, self._loaded.max_length, model.dtype
        )
        budget = self.budget_tokens
        try:
            together = self.score_tokens(prompts).logprobs
            self.forget()
            alone = []
            self.budget_tokens = min(budget, CHECKED_PASS_TOKENS)
            for prompt in prompts:
                alone += self.score_tokens([prompt]).logprobs
                self.forget()
        except EngineError as error:
            return str(error)
        finally:
            self.budget_tokens = budget
        self._arithmetic = canonical_mode.digest(together)
        return None if alone == together else "test prompts have different bits alone than together"

    def _choose_forward(self) -> HostedForward | FusedForward:
        model = self._loaded.model
        # In bfloat16 a layout for many more rows would be rearranged by each product.
        rows = canonical_mode.PASS_ROWS if model.dtype == torch.bfloat16 else self.budget_tokens
        if self._packed_bytes and can_be_fused(model):
            return FusedForward(model, rows, canonical=self.canonical)
        products = None
        if onednn_serves(model.device, model.dtype):
            products = Products(model, rows, packed=bool(self._packed_bytes))
        return HostedForward(model, products)

    @property
    def packed_weights(self) -> bool:
        """Return whether the weights are also stored in the layout that products read fastest."""
        return self._packed_bytes > 0

    def settings(self) -> dict[str, object]:
        """Return the settings that could change the last bits of a number."""
        own: dict[str, object] = {
            "engine": "transformers-trie",
            "canonical": self.canonical,
            "strategy": self._forward.name,
        }
        if self._loaded.model.dtype == torch.bfloat16:
            own |= {"bfloat16": bfloat16_by(), "query_rows": tiles.ROWS}
        if self.canonical:
            # The division into passes and their memory are left out: they change no bit.
            return own | {
                "products": "onednn",
                "attention": self._attention(),
                "block": BLOCK,
                "chunk_positions": canonical_mode.CHUNK_POSITIONS,
                "row_multiple": self._row_multiple(),
                "vocabulary_chunk": VOCABULARY_CHUNK,
                "arithmetic": self._arithmetic,
            }
        return own | {
            "not_canonical": self._fast_because,
            "products": "onednn" if onednn_serves(self._loaded.device, self._loaded.model.dtype) else "torch",
            "packed_weights": self.packed_weights,
            "attention": self._attention(),
            "block": BLOCK,
            "key_multiple": KEY_MULTIPLE,
            "vocabulary_chunk": VOCABULARY_CHUNK,
            "piece_tokens": PIECE_TOKENS,
            "budget_tokens": self.budget_tokens,
        }

    def _attention(self) -> str:
        """Return the kind of attention in most layers; on the CPU, layers with a window or a softcap use float32."""
        if self._loaded.model.dtype == torch.bfloat16:
            return "tiles"
        return "chunks" if self.canonical else "blocks"

    def score(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return the log-probability of each continuation's first token.

        should_stop is called between passes; a true result raises InterruptedScoringError.
        """
        return self.score_tokens(
            encode_labels(self._loaded.tokenizer, prompts),
            should_stop=should_stop,
        )

    def score_tokens(
        self, prompts: Sequence[TokenisedPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Score prompts that are already tokenised."""
        return self._read(
            [prompt.context for prompt in prompts],
            [[(0, label) for label in prompt.labels] for prompt in prompts],
            [prompt.group for prompt in prompts],
            should_stop,
        )

    def score_continuations(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of whole continuations, summed over their tokens."""
        sequences, targets, groups = [], [], []
        for prompt in encode_continuations(self._loaded.tokenizer, prompts):
            for continuation in prompt.continuations:
                sequences.append(prompt.context + continuation[:-1])
                targets.append(list(zip(range(len(continuation) - 1, -1, -1), continuation, strict=True)))
                groups.append(prompt.group)
        scored = self._read(sequences, targets, groups, should_stop)
        sums = iter(min(0.0, sum(values)) for values in scored.logprobs)
        return ScoredPrompts(
            [[next(sums) for _ in prompt.continuations] for prompt in prompts],
            scored.tokens_naive,
            scored.tokens_computed,
        )

    def _read(
        self,
        sequences: Sequence[Sequence[int]],
        targets: Sequence[Sequence[Target]],
        groups: Sequence[Hashable],
        should_stop: Callable[[], bool] | None,
    ) -> ScoredPrompts:
        """Return the log-probability of every target of every sequence."""
        if not sequences:
            return ScoredPrompts([], 0, 0)
        for sequence in sequences:
            check_length(len(sequence), self._loaded.max_length)
        trie = build_trie(sequences)
        reads = [
            [(_ancestor(trie, last, steps), token) for steps, token in listed]
            for last, listed in zip(trie.last, targets, strict=True)
        ]
        logprobs, computed = self._run(trie, {read for listed in reads for read in listed}, groups, should_stop)
        return ScoredPrompts(
            [check_logprobs([logprobs[read] for read in listed]) for listed in reads],
            sum(map(len, sequences)),
            computed,
        )

    def _run(
        self,
        trie: TokenTrie,
        reads: set[tuple[int, int]],
        groups: Sequence[Hashable],
        should_stop: Callable[[], bool] | None,
    ) -> tuple[dict[tuple[int, int], float], int]:
        """Return the log-probability of every (node, next token), and the number of computed nodes."""
        tokens_at: dict[int, list[int]] = {}
        for node, token in reads:
            tokens_at.setdefault(node, []).append(token)
        stored = self._kept.find(trie, set(tokens_at))
        threads = torch.get_num_threads()
        pieces = list(self._plan_pieces(trie, stored, threads))
        upper = {step for first, _ in pieces for step in trie.path(trie.parent[first])} - stored.keys()
        most = threads if self.canonical else min(threads, MAX_LANES)
        lanes, budget = self._share_memory(trie, len(upper), min(most, len(pieces)))
        ends = {end for end in shared_ends(trie, groups) if end not in stored}
        ends = set(_fitting(trie, ends, self._state_bytes(), self._kept.limit_bytes))
        stop = should_stop or _never
        work = _Work(trie, tokens_at, stored, ends, self._forward, self._readout, budget, stop, self._row_multiple())
        pool = self._pool_of(lanes, 1 if self.canonical else max(1, threads // MAX_LANES))
        with self._forward.install():
            above = [pool.submit(work.reach, trie.parent[first]).result() for first, _ in pieces]
            outcomes = above + _results([pool.submit(work.stream, *piece) for piece in pieces])
        logprobs: dict[tuple[int, int], float] = {}
        for outcome in outcomes:
            logprobs |= outcome.logprobs
            for end, states in outcome.kept:
                self._kept.add([trie.tokens[node] for node in trie.path(end)], states)
        return logprobs, sum(outcome.computed for outcome in outcomes)

    def _plan_pieces(self, trie: TokenTrie, known: Container[int], threads: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of nodes for threads to compute; in the canonical mode their number suits the threads."""
        if self.canonical and threads == 1:
            return iter([(0, len(trie))])
        if not self.canonical:
            return plan_pieces(trie, known, PIECE_TOKENS)
        rounds = max(1, round(len(trie) / (threads * PIECE_TOKENS)))
        return plan_pieces(trie, known, max(GOOD_PASS_TOKENS, len(trie) // (rounds * threads)))

    def _pool_of(self, lanes: int, threads: int) -> ThreadPoolExecutor:
        """Return a pool of threads that compute passes separately. threads: how many share a product.

        A product shared by all threads makes them wait for each other thousands of times a second, and for other
        programs on the machine. The pool is reused, since new threads would allocate memory for each call.
        """
        if self._pool is None or self._pool[0] != (lanes, threads):
            executor = ThreadPoolExecutor(lanes, initializer=torch.set_num_threads, initargs=(threads,))
            self._pool = (lanes, threads), executor
        return self._pool[1]

    def forget(self) -> None:
        """Drop the states kept for later calls."""
        self._kept.clear()

    def _share_memory(self, trie: TokenTrie, upper: int, lanes: int) -> tuple[int, int]:
        """Return (threads, tokens of a pass), fewer than configured if the remaining memory is too small.

        upper: number of tokens whose states the pieces start from.
        Raises EngineError if not even one thread with a short pass fits.
        """
        config = self._loaded.model.config.get_text_config()
        heads, key_heads, size = self._shape()
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        longest = max(trie.depth) + 1
        states = self._state_bytes()
        # Stored states may be in use while they are replaced.
        fixed = self._packed_bytes + 2 * self._kept.limit_bytes + upper * states
        per_lane = (
            UNPLANNED_LANE_BYTES
            + longest * states  # the path passed on from pass to pass
            + 4 * longest * states // config.num_hidden_layers
            + 3 * 4 * heads * BLOCK * (longest + BLOCK)  # scores of a block
            + 3 * 4 * READ_ROWS * min(VOCABULARY_CHUNK, config.vocab_size)
            # A slice of the vocabulary head as float32, if the model stores it narrower.
            + (self._loaded.model.dtype.itemsize < 4)
            * 4
            * min(VOCABULARY_CHUNK, config.vocab_size)
            * config.hidden_size
        )
        per_token = 4 * (8 * config.hidden_size + 8 * heads * size + 8 * key_heads * size + 4 * inner)
        left = int(PLANNED_SHARE * self.memory_bytes) - UNPLANNED_BYTES - fixed
        least = canonical_mode.PASS_ROWS if self._has_fixed_rows() else MIN_PASS_TOKENS
        while lanes > 1 and left < lanes * (per_lane + max(GOOD_PASS_TOKENS, least) * per_token):
            lanes -= 1
        fits = (left - lanes * per_lane) // (lanes * per_token)
        if fits < least:
            needed = int((fixed + UNPLANNED_BYTES + per_lane + least * per_token) / PLANNED_SHARE) >> 20
            raise EngineError(
                f"scoring prompts of {longest} tokens takes about {needed + 1} MiB besides the model, but "
                f"{self.memory_bytes >> 20} MiB are allowed; allow more, or use the batched engine"
            )
        if self._has_fixed_rows():
            return lanes, min(self.budget_tokens, least)
        tokens = min(self.budget_tokens, fits)
        if self.canonical:
            tokens = max(1, tokens // ROW_MULTIPLE) * ROW_MULTIPLE
        return lanes, tokens

    def _row_multiple(self) -> int | None:
        """Return the multiple to which the rows of canonical passes are padded."""
        return canonical_mode.row_multiple(self._loaded.model.dtype) if self.canonical else None

    def _has_fixed_rows(self) -> bool:
        """Return whether all passes have the same number of rows."""
        return self._row_multiple() == canonical_mode.PASS_ROWS

    def _shape(self) -> tuple[int, int, int]:
        """Return (heads, key heads, head size) of the model's attention."""
        config = self._loaded.model.config.get_text_config()
        heads = config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // heads
        return heads, getattr(config, "num_key_value_heads", None) or heads, size

    def _state_bytes(self) -> int:
        """Return the bytes of one token's keys and values in all layers."""
        config = self._loaded.model.config.get_text_config()
        _, key_heads, size = self._shape()
        return 2 * key_heads * size * config.num_hidden_layers * self._loaded.model.dtype.itemsize


def _never() -> bool:
    return False


def _fitting(trie: TokenTrie, ends: Iterable[int], state_bytes: int, limit_bytes: int) -> Iterator[int]:
    """Yield the nodes whose paths' states fit into the limit together, the longest paths first."""
    for end in sorted(ends, key=lambda end: -trie.depth[end]):
        limit_bytes -= (trie.depth[end] + 1) * state_bytes
        if limit_bytes >= 0:
            yield end


@dataclass
class _Outcome:
    """The result of a piece of work: log-probabilities, number of computed nodes, states of the paths to keep."""

    logprobs: dict[tuple[int, int], float] = field(default_factory=dict)
    computed: int = 0
    kept: list[tuple[int, PathStates]] = field(default_factory=list)


def _results(futures: Sequence[Future[_Outcome]]) -> list[_Outcome]:
    """Return the results of the calls. If one fails, wait for the others first, since the model is restored next."""
    try:
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


@dataclass
class _Work:
    """The trie of one call, and the plan for computing it.

    tokens_at: by node, the tokens whose log-probabilities are read there. known: states of paths, by node. ends: nodes
    whose paths' states are kept. budget: tokens of a pass. row_multiple: multiple to which the rows of canonical passes
    are padded; None in the fast mode.
    """

    trie: TokenTrie
    tokens_at: dict[int, list[int]]
    known: dict[int, PathStates]
    ends: set[int]
    forward: HostedForward | FusedForward
    readout: Readout
    budget: int
    should_stop: Callable[[], bool]
    row_multiple: int | None

    @torch.no_grad()
    def stream(self, first: int, last: int) -> _Outcome:
        """Compute the unknown nodes from `first` to `last - 1`, pass by pass."""
        trie = self.trie
        outcome = _Outcome()
        pending = _Pending(self, outcome.logprobs)
        carried: dict[int, PathStates] = {}
        ranges = list(plan_passes(self.known, self.budget, first, last, 1 if self.row_multiple else BLOCK))
        for number, (start, stop) in enumerate(ranges):
            if self.should_stop():
                raise InterruptedScoringError
            above = trie.parent[start]
            states = carried[above] if above in carried else self._states_of(above)
            keep = [end for end in self.ends if start <= end < stop]
            following = trie.parent[ranges[number + 1][0]] if number + 1 < len(ranges) else -1
            if following >= 0 and following not in self.known:
                keep.append(following)
            current = Pass(trie, start, stop, states, keep, row_multiple=self.row_multiple)
            wanted = [node for node in range(start, stop) if node in self.tokens_at]
            pending.add(wanted, self.forward(current, [node - start for node in wanted]))
            carried = current.kept()
            outcome.kept += [(end, kept.copied()) for end, kept in carried.items() if end in self.ends]
            outcome.computed += stop - start
        pending.read()
        return outcome

    @torch.no_grad()
    def reach(self, node: int) -> _Outcome:
        """Compute the path to a node from which a thread then starts."""
        outcome = _Outcome()
        path = self.trie.path(node)
        first = next((place for place, step in enumerate(path) if step not in self.known), len(path))
        if first == len(path):
            return outcome
        chain = build_trie([[self.trie.tokens[step] for step in path]])
        states = self._states_of(path[first - 1] if first else -1)
        for start, stop in plan_passes((), self.budget, first, len(chain)):
            if self.should_stop():
                raise InterruptedScoringError
            current = Pass(chain, start, stop, states, [stop - 1], row_multiple=self.row_multiple)
            wanted = [step for step in path[start:stop] if step in self.tokens_at]
            read = self.forward(current, [self.trie.depth[step] - start for step in wanted])
            pending = _Pending(self, outcome.logprobs)
            pending.add(wanted, read)
            pending.read()
            states = current.kept()[stop - 1]
        outcome.computed = len(path) - first
        outcome.kept = [
            (step, states.shorten(place + 1).copied()) for place, step in enumerate(path) if step in self.ends
        ]
        self.known |= dict.fromkeys(path[first:], states)
        return outcome

    def _states_of(self, node: int) -> PathStates:
        return self.known[node].shorten(self.trie.depth[node] + 1) if node >= 0 else PathStates()


class _Pending:
    """States that wait to be read, so that the vocabulary head gets many at once."""

    def __init__(self, work: _Work, logprobs: dict[tuple[int, int], float]) -> None:
        self._work = work
        self._logprobs = logprobs
        self._nodes: list[int] = []
        self._states: list[torch.Tensor] = []

    def add(self, nodes: Sequence[int], states: torch.Tensor) -> None:
        """Add the states of nodes. states: (nodes, hidden size)."""
        for first in range(0, len(nodes), READ_ROWS):
            self._nodes += nodes[first : first + READ_ROWS]
            self._states.append(states[first : first + READ_ROWS])
            if len(self._nodes) >= READ_ROWS:
                self.read()

    def read(self) -> None:
        """Read out the collected nodes."""
        if not self._nodes:
            return
        reads = [(row, token) for row, node in enumerate(self._nodes) for token in self._work.tokens_at[node]]
        rows, tokens = [row for row, _ in reads], [token for _, token in reads]
        states = torch.cat(self._states)
        if self._work.row_multiple:
            states = torch.nn.functional.pad(states, (0, 0, 0, -len(states) % ROW_MULTIPLE))
        values = self._work.readout.logprobs(states, rows, tokens)
        for (row, token), value in zip(reads, values, strict=True):
            self._logprobs[self._nodes[row], token] = value
        self._nodes, self._states = [], []


def plan_passes(
    known: Container[int], budget: int, first: int, last: int, multiple: int = BLOCK
) -> Iterator[tuple[int, int]]:
    """Yield ranges of the nodes from `first` to `last - 1` to compute, without known nodes, at most `budget` each.

    A range ends before known nodes, otherwise at a `multiple`, such as the end of a block of attention. Dividing costs
    nothing: the states of the path to the next node are passed on.
    """
    while first < last:
        if first in known:
            first += 1
            continue
        stop = min(first + budget, last)
        if stop < last and stop - stop % multiple > first:
            stop -= stop % multiple
        stop = next((node for node in range(first, stop) if node in known), stop)
        yield first, stop
        first = stop


def plan_pieces(trie: TokenTrie, known: Container[int], piece_tokens: int = PIECE_TOKENS) -> Iterator[tuple[int, int]]:
    """Yield ranges that together are all nodes, for threads to take one after the other.

    A piece begins at the shallowest node near its equal share: at a question rather than within one, since the path to
    that node is computed first.
    """
    unknown = [node for node in range(len(trie)) if node not in known]
    pieces = max(1, round(len(unknown) / piece_tokens))
    size = len(unknown) // pieces
    first = 0
    for piece in range(1, pieces):
        around = unknown[piece * size - size // 3 : piece * size + size // 3 + 1]
        cut = min(around, key=trie.depth.__getitem__)
        yield first, cut
        first = cut
    yield first, len(trie)


def _ancestor(trie: TokenTrie, node: int, steps: int) -> int:
    for _ in range(steps):
        node = trie.parent[node]
    return node
