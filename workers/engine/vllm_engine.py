"""vLLM in this process: the engine on GPUs, if it is installed and supports the model.

Labels are requested by `logprob_token_ids`, exactly these labels, with one token to write: never by `prompt_logprobs`,
which skip the prefix cache and depend on the order of requests with it. Among a context's whole continuations the
longest is written, by a request with forced tokens, and the others continue, in requests of their own, from their first
difference, so no token is computed twice except in the last, unfilled block of the cache. Requests are sent in the
order of their texts, so that common beginnings follow each other and their keys and values are still in the cache.

vLLM is imported only when an engine is opened. All other code receives an opened engine, so that tests can replace it.
"""

import gc
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Protocol, TypeVar

import torch

from workers.children import guard_children
from workers.engine.adapters import Adapter
from workers.engine.encoding import encode_continuations, encode_labels, is_cuttable
from workers.engine.generation import (
    Counted,
    Generated,
    GenerationPrompt,
    check_fits,
    context_of,
    decoder_of,
    effective_parameters,
    first_stop,
)
from workers.engine.loading import LoadedModel
from workers.errors import EngineError, InterruptedScoringError
from workers.model_types import WEIGHTS_SHARE
from workers.seeds import seed_number
from workers.tokens import (
    ScoredPrompts,
    ScoringPrompt,
    check_length,
    check_logprobs,
)

MOST_TOKENS_ASKED: Final = 64
"""Most tokens whose log-probabilities one request reads; vLLM limits them to 128."""


PART: Final = 256
"""Number of prompts tokenised together, while vLLM computes the earlier ones."""

Tokens = tuple[int, ...]
Asked = TypeVar("Asked")
_Request = tuple[Asked, list[int], Any]
"""The purpose of a request, the tokens of its prompt, and vLLM's parameters."""


class Core(Protocol):
    """The part of vLLM's `LLMEngine` that is used."""

    def add_request(
        self, request_id: str, prompt: Any, params: Any, *, lora_request: Any = None, priority: int = 0
    ) -> object:
        """Queue a request before those with a greater `priority`; its id is returned with its output."""
        ...

    def step(self) -> Sequence[Any]:
        """Compute a step and return its outputs."""
        ...

    def has_unfinished_requests(self) -> bool:
        """Return whether something is queued or being computed."""
        ...

    def abort_request(self, request_ids: list[str]) -> None:
        """Drop requests."""
        ...

    def reset_prefix_cache(self) -> object:
        """Empty the prefix cache."""
        ...


@dataclass(frozen=True)
class OpenedVllm:
    """vLLM with a model. params: creates its `SamplingParams`. lora: sent with each request; None without an adapter.

    forced: returns the argument of `params` that makes a request write these tokens. settings: the settings that could
    change a number. close: ends vLLM's processes.
    """

    core: Core
    params: Callable[..., Any]
    forced: Callable[[list[int]], Mapping[str, Any]]
    settings: Mapping[str, object]
    lora: Any = None
    close: Callable[[], None] = lambda: None


class VllmEngine:
    """Log-probabilities and texts of one model, computed by vLLM.

    budget_tokens: not used by vLLM, which plans its own memory; the worker halves it if memory runs out.
    """

    def __init__(self, loaded: LoadedModel, opened: OpenedVllm) -> None:
        self._loaded = loaded
        self.opened = opened
        self._numbers = itertools.count()
        self.budget_tokens = 1

    def score(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return the log-probability of each continuation's first token."""
        reads: list[tuple[_Context, list[int]]] = []
        computed = 0
        for (context, labels), output in self._run(self._readings(prompts, reads), should_stop):
            computed += len(context.tokens) - (output.num_cached_tokens or 0)
            logprobs = output.outputs[0].logprobs[0]
            nats = _nats(zip(itertools.repeat(logprobs), labels))
            context.nats.update(zip(zip(labels, strict=True), nats, strict=True))
        return ScoredPrompts(
            [check_logprobs([context.nats[(label,)] for label in labels]) for context, labels in reads],
            sum(len(context.tokens) for context, _ in reads),
            computed,
        )

    def _readings(
        self, prompts: Sequence[ScoringPrompt], reads: list[tuple["_Context", list[int]]]
    ) -> Iterator[_Request[tuple["_Context", list[int]]]]:
        """Yield the requests for prompts, adding their contexts and labels to `reads`."""
        params_of_labels: dict[
            Tokens, Any
        ] = {}  # most prompts have the same labels, and vLLM copies parameters that it changes
        for part in _parts(prompts):
            wanted: dict[tuple[str, int], tuple[_Context, set[int]]] = {}
            for scoring, prompt in zip(part, encode_labels(self._loaded.tokenizer, part), strict=True):
                check_length(len(prompt.context), self._loaded.max_length)
                key = scoring.text, len(prompt.context)
                context, following = wanted.setdefault(key, (_Context(prompt.context), set()))
                following.update(prompt.labels)
                reads.append((context, prompt.labels))
            for _, (context, following) in sorted(wanted.items(), key=itemgetter(0)):
                listed = sorted(following)
                for first in range(0, len(listed), MOST_TOKENS_ASKED):
                    labels = listed[first : first + MOST_TOKENS_ASKED]
                    params = params_of_labels.get(tuple(labels))
                    if params is None:
                        options = {
                            "max_tokens": 1,
                            "temperature": 0.0,
                            "detokenize": False,
                            "logprob_token_ids": labels,
                        }
                        params = params_of_labels[tuple(labels)] = self.opened.params(**options)
                    yield (context, labels), context.tokens, params

    def score_continuations(
        self, prompts: Sequence[ScoringPrompt], *, should_stop: Callable[[], bool] | None = None
    ) -> ScoredPrompts:
        """Return log-probabilities of whole continuations, summed over their tokens."""
        wanted: list[tuple[_Context, list[Tokens]]] = []
        computed = 0
        parted: deque[_Request[_Branch]] = deque()
        for branch, output in self._run(self._writings(prompts, wanted), should_stop, parted):
            context, written = branch.context, output.outputs[0]
            if tuple(written.token_ids) != branch.tokens:
                raise EngineError(
                    f"vLLM wrote tokens {list(written.token_ids)}, and was given {list(branch.tokens)} to write"
                )
            computed += len(context.tokens) + branch.begun - (output.num_cached_tokens or 0) + len(branch.tokens) - 1
            for begun, nats, continuations in branch.read(written.logprobs):
                context.nats.update(
                    (continuation, nats) for continuation in continuations if len(continuation) == begun
                )
                parted += self._branches(
                    context, begun, nats, [continuation for continuation in continuations if len(continuation) > begun]
                )
        naive = sum(len(context.tokens) + len(tokens) - 1 for context, listed in wanted for tokens in listed)
        return ScoredPrompts(
            [check_logprobs([context.nats[tokens] for tokens in listed]) for context, listed in wanted],
            naive,
            computed,
        )

    def _writings(
        self, prompts: Sequence[ScoringPrompt], wanted: list[tuple["_Context", list[Tokens]]]
    ) -> Iterator[_Request["_Branch"]]:
        """Yield the first requests for prompts, adding their contexts and continuations to `wanted`."""
        for part in _parts(prompts):
            contexts: dict[tuple[str, int], tuple[_Context, set[Tokens]]] = {}
            for scoring, prompt in zip(part, encode_continuations(self._loaded.tokenizer, part), strict=True):
                continuations = [tuple(tokens) for tokens in prompt.continuations]
                check_length(len(prompt.context) + max(map(len, continuations)) - 1, self._loaded.max_length)
                key = scoring.text, len(prompt.context)
                context, following = contexts.setdefault(key, (_Context(prompt.context), set()))
                following.update(continuations)
                wanted.append((context, continuations))
            for _, (context, following) in sorted(contexts.items(), key=itemgetter(0)):
                yield from self._branches(context, 0, 0.0, sorted(following))

    def _branches(
        self, context: "_Context", begun: int, nats: float, continuations: list[Tokens]
    ) -> Iterator[_Request["_Branch"]]:
        """Yield requests for continuations with a common beginning; each writes the longest of its continuations.

        A request also reads the next tokens of the others. begun: number of tokens of that beginning, which are sent
        with the context. nats: its log-probability.
        """
        while continuations:
            longest = max(continuations, key=len)
            parting: dict[tuple[int, int], list[Tokens]] = {}
            ended, later = [], []
            for tokens in continuations:
                if tokens == longest[: len(tokens)]:
                    ended.append(tokens)
                    continue
                same = begun
                while tokens[same] == longest[same]:
                    same += 1
                if (same, tokens[same]) in parting or len(parting) < MOST_TOKENS_ASKED:
                    parting.setdefault((same, tokens[same]), []).append(tokens)
                else:
                    later.append(tokens)
            branch = _Branch(context, begun, nats, longest[begun:], ended, parting)
            # For written tokens alone logprobs=0 is enough; other tokens need their ids.
            read = {"logprob_token_ids": sorted({token for _, token in parting})} if parting else {"logprobs": 0}
            options = {"max_tokens": len(branch.tokens), "temperature": 0.0, "detokenize": False, "ignore_eos": True}
            params = self.opened.params(**read, **options, **self.opened.forced(list(branch.tokens)))
            yield branch, [*context.tokens, *longest[:begun]] if begun else context.tokens, params
            continuations = later

    def _run(
        self,
        requests: Iterable[_Request[Asked]],
        should_stop: Callable[[], bool] | None,
        more: deque[_Request[Asked]] | None = None,
    ) -> Iterator[tuple[Asked, Any]]:
        """Yield each request's purpose with its output, in the order in which the requests end.

        Requests are queued at once, without waiting for results, so that vLLM, in a process of its own, computes the
        first while the next are tokenised here. more: requests that follow from an output; they go before waiting ones,
        since their beginnings are in the cache.
        """
        core, number = self.opened.core, next(self._numbers)
        waiting: dict[str, Asked] = {}
        places = itertools.count()

        def queue(asked: Asked, tokens: list[int], params: Any, priority: int) -> None:
            name = f"{number}-{next(places)}"
            waiting[name] = asked
            prompt = {"type": "token", "prompt_token_ids": tokens}
            core.add_request(name, prompt, params, lora_request=self.opened.lora, priority=priority)
            if should_stop is not None and should_stop():
                raise InterruptedScoringError

        try:
            for request in requests:
                queue(*request, priority=0)
            while waiting:
                if should_stop is not None and should_stop():
                    raise InterruptedScoringError
                if not core.has_unfinished_requests():
                    raise EngineError(f"vLLM dropped {len(waiting)} requests without an answer; see its log")
                for output in core.step():
                    if output.finished and output.request_id in waiting:
                        yield waiting.pop(output.request_id), output
                while more:
                    queue(*more.popleft(), priority=-1)
        finally:
            if waiting:
                with suppress(Exception):  # an engine that has died has no requests to drop
                    core.abort_request(list(waiting))

    def write(
        self,
        prompts: Sequence[GenerationPrompt],
        generation: Mapping[str, Any],
        *,
        should_stop: Callable[[], bool] | None,
        kept_special: Callable[[str], bool],
        done: Callable[[int, Generated], None],
    ) -> tuple[list[Generated], Counted]:
        """Continue each prompt, as `generate_counted` does with transformers; vLLM draws with its own generator.

        A limited thought is first written up to its limit; the text that closes it is then sent as the beginning of the
        rest.
        """
        parameters = effective_parameters(self._loaded, generation)
        most, limit = int(generation["max_tokens"]), self._loaded.max_length
        rows = [_Text(prompt, context_of(self._loaded.tokenizer, prompt)) for prompt in prompts]
        for row in rows:
            check_fits(len(row.context), most, limit)
            row.most = most if limit is None else min(most, limit - len(row.context))
        decode = decoder_of(self._loaded.tokenizer, kept_special)
        written: dict[int, Generated] = {}
        counted = computed = 0
        waiting = sorted(range(len(rows)), key=lambda place: rows[place].context)
        while waiting:
            requests = [
                (place, rows[place].context + rows[place].written, self._drawing(parameters, rows[place]))
                for place in waiting
            ]
            going_on = []
            for place, output in self._run(requests, should_stop):
                row, ended = rows[place], output.outputs[0]
                if not row.written:
                    counted += len(row.context)
                    computed += len(row.context) - (output.num_cached_tokens or 0)
                row.written += ended.token_ids
                if self._goes_on(row, decode, finished=ended.finish_reason == "stop"):
                    going_on.append(place)
                else:
                    written[place] = self._make_generated(
                        row, decode, parameters, finished=ended.finish_reason == "stop"
                    )
                    done(place, written[place])
            waiting = sorted(going_on, key=lambda place: rows[place].context)
        return [written[place] for place in range(len(rows))], Counted(counted, computed)

    def _drawing(self, parameters: Mapping[str, Any], row: "_Text") -> Any:
        limit = row.prompt.limit
        left = row.most - len(row.written)
        if limit is not None and not row.forced:
            left = min(left, limit.tokens - len(row.written))
        drawn: dict[str, Any] = {"temperature": 0.0}
        if parameters["do_sample"]:
            drawn = {name: float(parameters[name]) for name in ("temperature", "top_p", "min_p")}
            drawn |= {"top_k": parameters["top_k"], "seed": row.seed(parameters["seed"])}
        return self.opened.params(
            max_tokens=left,
            repetition_penalty=float(parameters["repetition_penalty"]),
            stop=parameters["stop"] or None,
            stop_token_ids=parameters["end_tokens"],
            skip_special_tokens=False,
            **drawn,
        )

    def _goes_on(self, row: "_Text", decode: Callable[[Sequence[int]], str], *, finished: bool) -> bool:
        """Return whether a text continues with its answer, because its thought is at the limit."""
        limit = row.prompt.limit
        if finished or limit is None or row.forced or len(row.written) < limit.tokens or limit.tokens >= row.most:
            return False
        closing = limit.closing(decode(row.written))
        if closing is None:  # not a thought: only the whole text has a limit
            row.forced, row.closed = True, False
            return True
        if not limit.answers:
            return False
        row.written += self._loaded.tokenizer(closing, add_special_tokens=False)["input_ids"]
        row.forced = True
        return len(row.written) < row.most

    def _make_generated(
        self, row: "_Text", decode: Callable[[Sequence[int]], str], parameters: Mapping[str, Any], *, finished: bool
    ) -> Generated:
        ends = parameters["end_tokens"]
        shown = row.written[:-1] if row.written and row.written[-1] in ends else row.written
        text = decode(shown)
        stop = first_stop(parameters["stop"], text)
        return Generated(
            text[:stop],
            max(1, len(row.written)),
            finished or stop is not None,
            parameters,
            row.forced and row.closed,
            lambda tokens: decode(shown[:tokens]),
        )

    def settings(self) -> dict[str, object]:
        """Return the settings that could change a number."""
        return {"engine": "vllm", **self.opened.settings}

    def forget(self) -> None:
        """Empty the cache of prompts' beginnings."""
        self.opened.core.reset_prefix_cache()

    def close(self) -> None:
        """End vLLM's processes, which frees their memory."""
        self.opened.close()


def _parts(prompts: Sequence[ScoringPrompt]) -> Iterator[Sequence[ScoringPrompt]]:
    for first in range(0, len(prompts), PART):
        yield prompts[first : first + PART]


def _nats(read: Iterable[tuple[Mapping[int, Any], int]]) -> list[float]:
    """Return the log-probability of each token, from the values that vLLM returned at its place."""
    try:
        return [float(logprobs[token].logprob) for logprobs, token in read]
    except KeyError as missing:
        raise EngineError(f"vLLM gave no log-probability of token {missing}, which it was asked for") from None


@dataclass(frozen=True, eq=False)
class _Context:
    """The tokens of a prompt, and the log-probabilities of its continuations as far as they are known."""

    tokens: list[int]
    nats: dict[Tokens, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Branch:
    """Continuations of a context with a common beginning.

    begun: number of tokens of that beginning that are sent with the context. nats: its log-probability. tokens: the
    tokens written after it. ended: continuations that end within them. parting: the other continuations, by the number
    of written tokens that they share, and by their next token.
    """

    context: "_Context"
    begun: int
    nats: float
    tokens: Tokens
    ended: list[Tokens]
    parting: Mapping[tuple[int, int], list[Tokens]]

    def read(self, logprobs: Sequence[Mapping[int, Any]]) -> Iterator[tuple[int, float, list[Tokens]]]:
        """Yield a number of tokens, their log-probability, and the continuations that begin with these tokens.

        logprobs: after each written token, starting after the last token of the prompt.
        """
        nats = list(itertools.accumulate(_nats(zip(logprobs, self.tokens, strict=True)), initial=self.nats))
        for tokens in self.ended:
            yield len(tokens), nats[len(tokens) - self.begun], [tokens]
        for (same, token), continuations in self.parting.items():
            place = same - self.begun
            yield same + 1, nats[place] + _nats([(logprobs[place], token)])[0], continuations


class _Text:
    """A text in progress. closed: whether its thought was closed, if it was forced."""

    def __init__(self, prompt: GenerationPrompt, context: list[int]) -> None:
        self.prompt = prompt
        self.context = context
        self.most = 0
        self.written: list[int] = []
        self.forced = False
        self.closed = True

    def seed(self, seed: int) -> int:
        """Return the seed of the next draws; draws after a forced end of the thought have another seed."""
        return seed_number(seed, self.prompt.seed_text + (":answer" if self.forced else ""))


def unknown_to_vllm(folder: Path) -> str | None:
    """Return the reason why vLLM does not support a model; None if it does."""
    from transformers import AutoConfig
    from vllm import ModelRegistry

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    supported = ModelRegistry.get_supported_archs()
    named = list(config.architectures or ())
    return None if any(name in supported for name in named) else f"vLLM does not know {', '.join(named)}"


def open_vllm(
    folder: Path,
    *,
    dtype: str,
    device: torch.device,
    adapter: Adapter | None = None,
    chat_template: str | None = None,
    memory_bytes: int | None = None,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    **options: Any,
) -> tuple[LoadedModel, VllmEngine]:
    """Open a model's folder in vLLM, with its tokenizer and configuration in this process.

    memory_bytes: for keys and values; None for the memory that vLLM finds free. options: other arguments of `vllm.LLM`.
    Raises EngineError if vLLM cannot load it, and MemoryError if its weights alone do not fit.
    """
    gpus = tensor_parallel * pipeline_parallel
    invariant = _prepare_environment(device, gpus)
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import RequestOutputKind

    options |= {"kv_cache_memory_bytes": memory_bytes} if memory_bytes else {}
    lora = None
    if adapter is not None:
        from vllm.lora.request import LoRARequest

        lora = LoRARequest("adapter", 1, str(adapter.folder))
        options |= {"enable_lora": True, "max_loras": 1, "max_lora_rank": _rank_of(adapter.folder)}
    if device.type == "cuda":
        _check_memory(folder, device, gpus)
    else:  # the CPU build, which serves the tests
        options = {"enforce_eager": True, "gpu_memory_utilization": 0.2, "block_size": 16, **options}
    replays = device.type == "cuda" and hasattr(SamplingParams, "trace_decode_token_ids")
    if replays:
        options |= {"enable_trace_replay": True}
    else:
        from workers.engine.vllm_forced import FORCED, ForcedTokens

        options |= {"logits_processors": [ForcedTokens]}

    def whole(**given: Any) -> Any:
        # Otherwise vLLM describes every request again at every token, and copies its parameters in depth.
        return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, skip_clone=True, **given)

    def force_tokens(tokens: list[int]) -> Mapping[str, Any]:
        return {"trace_decode_token_ids": tokens} if replays else {"extra_args": {FORCED: tokens}}

    end_children = guard_children()
    try:
        llm = LLM(
            model=str(folder),
            dtype=dtype,
            trust_remote_code=False,
            load_format="safetensors",
            generation_config="vllm",  # only the protocol decides the sampling
            enable_prefix_caching=True,
            scheduling_policy="priority",
            tensor_parallel_size=tensor_parallel,
            pipeline_parallel_size=pipeline_parallel,
            **options,
        )
    except (ValueError, RuntimeError) as error:
        end_children()
        reason = " ".join(str(error).split())[:300]
        raise EngineError(f"{folder} cannot be loaded by vLLM: {reason}; its log says more") from error
    loaded = _load_description(folder, dtype, device, chat_template, adapter)
    is_cuttable(loaded.tokenizer)  # it searches the vocabulary once, while no GPU waits
    gc.collect()
    gc.freeze()  # otherwise every full collection visits all objects that vLLM imported: 0.2 ms per prompt
    config = llm.llm_engine.vllm_config
    settings = {
        "version": version("vllm"),
        "tensor_parallel": tensor_parallel,
        "pipeline_parallel": pipeline_parallel,
        "batch_invariant": invariant,
        "block_size": config.cache_config.block_size,
        "kv_cache_dtype": str(config.cache_config.cache_dtype),
        "eager": bool(config.model_config.enforce_eager),
    }
    limit = min(config.model_config.max_model_len, loaded.max_length or config.model_config.max_model_len)
    loaded = LoadedModel(**{**vars(loaded), "max_length": limit - 1})  # vLLM always writes one token

    def close() -> None:
        llm.llm_engine.engine_core.shutdown()
        end_children()
        gc.unfreeze()

    return loaded, VllmEngine(loaded, OpenedVllm(llm.llm_engine, whole, force_tokens, settings, lora, close))


def _prepare_environment(device: torch.device, gpus: int) -> bool:
    """Set vLLM's environment before its import; return whether numbers are independent of the batch.

    vLLM's processes see the GPUs from the chosen one on, as many as the model needs.
    """
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    if device.type != "cuda":
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
        os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
        return False
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = named.split(",") if named else [str(number) for number in range(torch.cuda.device_count())]
    first = device.index or 0
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(visible[first : first + gpus])
    if torch.cuda.get_device_capability(device) >= (8, 0):
        os.environ.setdefault("VLLM_BATCH_INVARIANT", "1")
    return os.environ.get("VLLM_BATCH_INVARIANT") == "1"


def _check_memory(folder: Path, device: torch.device, gpus: int) -> None:
    """Check that the weights fit: vLLM loads in a separate process, where a lack of memory looks like other errors."""
    weights = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    free = torch.cuda.mem_get_info(device)[0] * gpus
    if weights > WEIGHTS_SHARE * free:
        raise MemoryError(f"{weights >> 20} MiB of weights, and {free >> 20} MiB are free")


def _rank_of(folder: Path) -> int:
    import json

    text = (folder / "adapter_config.json").read_text(encoding="utf-8")
    rank = int(json.loads(text).get("r", 16))  # noqa: TID251 - knows no registry
    return next(rank_limit for rank_limit in (8, 16, 32, 64, 128, 256, 320, 512) if rank <= rank_limit)


def _load_description(
    folder: Path, dtype: str, device: torch.device, chat_template: str | None, adapter: Adapter | None
) -> LoadedModel:
    """Load a model's tokenizer and configuration, without its weights."""
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    from workers.checkpoints import read_quantisation

    own = {"trust_remote_code": False, "local_files_only": True}
    config = AutoConfig.from_pretrained(folder, **own)
    try:
        generation = GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError:
        generation = GenerationConfig.from_model_config(config)
    tokenizer = AutoTokenizer.from_pretrained(folder, **own)
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    model = SimpleNamespace(config=config, generation_config=generation)
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    applied = None if adapter is None else "unmerged"
    return LoadedModel(model, tokenizer, device, dtype, read_quantisation(folder), limit, applied)
