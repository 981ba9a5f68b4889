"""The scorer: keeps one model loaded and scores shards with it."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Engine

from registry.code_identity import code_identity
from registry.db import read_session
from registry.digests import specification_digest
from registry.errors import ModelError
from registry.predictions.prompts import ShardPrompt
from registry.predictions.texts import text_columns
from registry.process_log import log
from registry.prompting.reading import read
from registry.queue.claims import Claim, ShardResult
from registry.queue.reuse import Reused, reusable
from registry.queue.shards import rows_of, shard_prompts
from registry.revisions.endpoints import provider_of
from registry.settings import get_settings
from registry.tables import Evaluation, ModelRevision
from workers.asking import AskedModel, EndpointModel, LocalModel
from workers.drafts import Drafts, replace_nul
from workers.fingerprint import driver_version, package_versions
from workers.memory import release_memory
from workers.quiet import quiet_libraries
from workers.written import Written

ENGINES: Final = ("auto", "trie", "batched", "reference", "vllm")
"""The engines, beginning with the default, `auto`: on a GPU vLLM if it is installed and supports the model, else
batches by transformers; on a CPU the trie. Named here too, so that the command line need not import torch.
"""


class Scorer(Protocol):
    """The claim loop's interface to an engine; the tests' deterministic engine is the other implementation."""

    loaded_model_revision_id: int | None
    budget_tokens: int
    """Tokens in one batch; lowered when memory runs out."""

    def device(self) -> str:
        """Return the device's name to show to users."""
        ...

    def place(self) -> str:
        """Return the device's unique name on its host."""
        ...

    def versions(self) -> dict[str, str]:
        """Return versions of packages that could change a number."""
        ...

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        """Score one shard; may raise any error, which counts as a failure of the shard."""
        ...

    def unload(self) -> None:
        """Release the loaded model's memory."""
        ...


def load_revision(revision: ModelRevision, home: Path, device: str | None) -> Any:
    """Load a revision whose files are on this machine. Raises ModelError or EngineError."""
    from workers.artifacts import adapter_folder, model_folder
    from workers.engine import Adapter, load_model

    adapter = adapter_folder(revision)
    return load_model(
        model_folder(revision, home),
        dtype=revision.dtype or "float32",
        quantisation=revision.quantisation,
        device=device,
        adapter=None if adapter is None else Adapter(adapter, merged=bool(revision.adapter_merged)),
        # An adapter may include the template that it was trained with.
        chat_template=None if adapter is None else revision.chat_template,
    )


_SAID_LATER: Final = frozenset({"server", "served_model", "served_model_changed", "system_fingerprint"})
"""Settings that a server reveals only in its answers."""


class TransformersScorer:
    """Scores with transformers or vLLM. torch is imported at the first shard, in the process that then keeps it."""

    def __init__(
        self,
        home: Path,
        device: str | None = None,
        *,
        engine: str = ENGINES[0],
        memory_mb: int | None = None,
        gpus: tuple[int, int] = (1, 1),
    ) -> None:
        """Prepare the scorer. engine: one of ENGINES. memory_mb: memory for scoring in addition to the model, in MiB.

        gpus: numbers of GPUs over which vLLM spreads the parts of a layer, and the groups of layers.
        """
        self.home = home
        self.loaded_model_revision_id: int | None = None
        self._device_name = device
        self._engine_name = engine
        self._gpus = gpus
        self._memory_bytes = memory_mb and memory_mb << 20
        self._budget_tokens: int | None = None
        self._model: Any = None
        self._how: dict[str, object] = {}
        self._matchers: dict[tuple[str, str], Any] = {}

    @property
    def budget_tokens(self) -> int:
        """Return the number of tokens in one pass or batch."""
        if self._budget_tokens is None:
            from workers.engine.loading import choose_device
            from workers.engine.trie_engine import BUDGET_TOKENS

            self._budget_tokens = BUDGET_TOKENS.get(choose_device(self._device_name).type, BUDGET_TOKENS["cpu"])
        return self._budget_tokens

    @budget_tokens.setter
    def budget_tokens(self, tokens: int) -> None:
        self._budget_tokens = tokens

    def device(self) -> str:
        """Return `cpu`, or the GPU's name."""
        import torch

        from workers.engine.loading import choose_device

        device = choose_device(self._device_name)
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"

    def place(self) -> str:
        """Return `cpu`, or the GPU's UUID, which does not depend on the order in which a process sees the GPUs."""
        import torch

        from workers.engine.loading import choose_device

        device = choose_device(self._device_name)
        return f"GPU {torch.cuda.get_device_properties(device).uuid}" if device.type == "cuda" else "cpu"

    def memory_bytes(self) -> int:
        """Return the memory of the GPU; 0 on a CPU."""
        import torch

        from workers.engine.loading import choose_device

        device = choose_device(self._device_name)
        return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else 0

    def versions(self) -> dict[str, str]:
        """Return versions of packages that could change a number, and on a GPU the version of its driver."""
        return package_versions() | ({} if self.place() == "cpu" else {"driver": driver_version() or "unknown"})

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        """Build the shard's prompts, load its model and score the prompts without a stored result."""
        with read_session(engine) as session:
            evaluation = session.get_one(Evaluation, claim.evaluation_id)
            definition, replicate = evaluation.protocol.definition, evaluation.replicate
            prompts = shard_prompts(session, claim.shard_id)
            self._load(session.get_one(ModelRevision, claim.model_revision_id), engine)
        self._model.budget_tokens = self.budget_tokens
        self._model.begin(claim)
        if "answer" in definition:
            drafts = None if self._model.journals else Drafts(engine, claim, self._writes_with(definition))
            return self._read_answers(definition, replicate, prompts, should_stop, drafts)
        started = time.perf_counter()
        reused: dict[int, Reused] = {}
        if self._model.reusable:
            with read_session(engine) as session:
                reused = reusable(session, claim.evaluation_id, self._fingerprint(definition), prompts)
        unscored = [item for place, item in enumerate(prompts) if place not in reused]
        scored = self._model.score(unscored, whole=definition["score"] != "first-token", should_stop=should_stop)
        new = iter(scored.logprobs)
        rows = rows_of(
            prompts, [reused[place].logprobs if place in reused else next(new) for place in range(len(prompts))]
        )
        for place, source in reused.items():
            rows[place] |= source.pointer()
        return ShardResult(
            rows=rows,
            fingerprint=self._fingerprint(definition),
            tokens_naive=scored.tokens_naive + sum(self._model.tokens(prompts[place]) for place in reused),
            tokens_computed=scored.tokens_computed,
            elapsed_s=time.perf_counter() - started,
        )

    def _read_answers(
        self,
        definition: Mapping[str, Any],
        replicate: int,
        prompts: list[ShardPrompt],
        should_stop: Callable[[], bool],
        drafts: Drafts | None = None,
    ) -> ShardResult:
        """Generate texts, find the answers in them and match the answers with options if the protocol requires it."""
        matcher = self._matcher(definition.get("matching"))
        started = time.perf_counter()
        # Each replicate draws separately; two equal prompts of an evaluation have the same answer.
        seeds = [f"{item.prompt.digest}:{replicate}" for item in prompts]
        written, naive, computed = self._write(definition, prompts, seeds, should_stop, drafts)
        readings = [
            read(definition, text.output, item.prompt.answers, item.prompt.options)
            for item, text in zip(prompts, written, strict=True)
        ]
        matching = time.perf_counter()
        if matcher is not None:
            places = [place for place, reading in enumerate(readings) if reading.to_match]
            options = [prompts[place].prompt.options for place in places]
            for place, match in zip(
                places, matcher.match([readings[place].text for place in places], options), strict=True
            ):
                readings[place] = readings[place].matched(match.position)
        ended = time.perf_counter()
        fingerprint = self._fingerprint(definition)
        if matcher is not None:
            fingerprint["matching"] = {
                **definition["matching"],
                "embedder_digest": matcher.digest(),
                "sentence-transformers": version("sentence-transformers"),
            }
        return ShardResult(
            rows=[
                item.build_stated_row(reading.position, reading.rule, reading.state)
                for item, reading in zip(prompts, readings, strict=True)
            ],
            fingerprint=fingerprint,
            tokens_naive=naive,
            tokens_computed=computed,
            elapsed_s=ended - started,
            generations=[
                {
                    "evaluation_id": item.evaluation_id,
                    "question_id": item.question_id,
                    "variant": item.variant.ordinal,
                    **text_columns(
                        text.output,
                        reading,
                        tokens=text.tokens,
                        thought_tokens=text.thought_tokens,
                        seconds=text.seconds,
                    ),
                }
                for item, text, reading in zip(prompts, written, readings, strict=True)
            ],
            matching_s=None if matcher is None else ended - matching,
        )

    def _write(
        self,
        definition: Mapping[str, Any],
        prompts: Sequence[ShardPrompt],
        seeds: Sequence[str],
        should_stop: Callable[[], bool],
        drafts: Drafts | None,
    ) -> tuple[list[Written], int, int]:
        """Return a text for each prompt, writing and storing the missing ones."""
        if drafts is None:
            written, naive, computed = self._model.write(prompts, seeds, definition, should_stop)
            return replace_nul(written), naive, computed
        drafted = drafts.load()
        by_place = {
            place: drafted[key]
            for place, item in enumerate(prompts)
            if (key := (item.question_id, item.variant.ordinal)) in drafted
        }
        left = [place for place in range(len(prompts)) if place not in by_place]
        if by_place:
            log.info("answers_kept", kept=len(by_place), left=len(left))
        missing = [prompts[place] for place in left]
        written, naive, computed = self._model.write(
            missing,
            [seeds[place] for place in left],
            definition,
            should_stop,
            lambda place, one: drafts.keep(missing[place], one),
        )
        drafts.flush()
        by_place |= zip(left, written, strict=True)
        return replace_nul([by_place[place] for place in range(len(prompts))]), naive, computed

    def _writes_with(self, definition: Mapping[str, Any]) -> str:
        """Return the digest of the engine's settings that are known before anything is written."""
        settings = self._model.settings(definition)
        early = {name: value for name, value in settings.items() if name not in _SAID_LATER}
        return specification_digest({"code": code_identity(), "packages": package_versions(), **early})

    def _matcher(self, matching: Mapping[str, Any] | None) -> Any:
        """Return the loaded matcher of a protocol; None if the protocol has none."""
        if matching is None:
            return None
        key = (matching["embedder"], matching["similarity"])
        if key not in self._matchers:
            from workers.matching import SentenceMatcher

            matcher = SentenceMatcher(*key)
            matcher.match(["ready"], [["ready"]])  # loading does not count as matching time
            self._matchers[key] = matcher
        return self._matchers[key]

    def _load(self, revision: ModelRevision, engine: Engine | None = None) -> None:
        """Load a model. engine: of the database with the limits of endpoints; None without limits."""
        if self.loaded_model_revision_id == revision.id:
            return
        quiet_libraries()
        self.unload()
        release_memory()  # otherwise the next model's budget excludes memory that the last model has not freed yet
        started = time.perf_counter()
        self._model = self._endpoint(revision, engine) if revision.kind == "openai" else self._local(revision)
        self.loaded_model_revision_id = revision.id
        elapsed = round(time.perf_counter() - started, 1)
        log.info("model_loaded", model=revision.model.name, revision=revision.number, elapsed_s=elapsed, **self._how)

    def _local(self, revision: ModelRevision) -> LocalModel:
        from workers.engine import open_engine

        because = self._why_not_vllm(revision)
        if because is None:
            return self._by_vllm(revision)
        loaded = load_revision(revision, self.home, self._device_name)
        name = "trie" if self._engine_name == "auto" else self._engine_name
        opened = open_engine(loaded, name, budget_tokens=self.budget_tokens, memory_bytes=self._memory_bytes)
        settings = opened.settings()
        if settings.get("bfloat16") == "emulated":
            log.warning(
                "bfloat16_emulated",
                model=revision.model.name,
                revision=revision.number,
                remedy="this processor has no bfloat16 and takes 6 to 7 times as long as in float32: run the worker "
                "on one with AMX or AVX-512 BF16, or add the model with --dtype float32",
            )
        self._how = {name: settings[name] for name in ("engine", "strategy", "because") if name in settings}
        self._how |= {} if loaded.device.type == "cpu" else {"not_vllm": because}
        return LocalModel(loaded, opened)

    def _why_not_vllm(self, revision: ModelRevision) -> str | None:
        """Return why a revision does not run in vLLM; None if it does."""
        from workers.artifacts import model_folder
        from workers.choice import why_not_vllm
        from workers.engine.loading import choose_device

        if self._engine_name == "vllm":
            return None
        if self._engine_name != "auto":
            return f"--engine {self._engine_name} was given"
        if choose_device(self._device_name).type == "cpu":
            return "the device is a CPU"
        return why_not_vllm(
            model_folder(revision, self.home),
            quantisation=revision.quantisation,
            merged_adapter=bool(revision.adapter_merged),
        )

    def _by_vllm(self, revision: ModelRevision) -> LocalModel:
        from workers.artifacts import adapter_folder, model_folder
        from workers.asking import VllmModel
        from workers.engine import Adapter
        from workers.engine.loading import choose_device
        from workers.engine.vllm_engine import open_vllm

        adapter = adapter_folder(revision)
        loaded, opened = open_vllm(
            model_folder(revision, self.home),
            dtype=revision.dtype or "float32",
            device=choose_device(self._device_name),
            adapter=None if adapter is None else Adapter(adapter, merged=False),
            chat_template=None if adapter is None else revision.chat_template,
            memory_bytes=self._memory_bytes,
            tensor_parallel=self._gpus[0],
            pipeline_parallel=self._gpus[1],
        )
        self._how = {name: opened.settings()[name] for name in ("engine", "version", "batch_invariant")}
        return VllmModel(loaded, opened)

    def _endpoint(self, revision: ModelRevision, engine: Engine | None) -> AskedModel:
        from workers.endpoint import open_endpoint
        from workers.pace import SharedPace

        assert revision.location is not None
        assert revision.requested_revision is not None
        settings = get_settings()
        if provider_of(revision.location, settings) is not None:
            from workers.providers import open_provider

            if engine is None:
                raise ModelError(
                    f"model {revision.model.name} is served by a provider: its answers are not asked for again, since "
                    "they cost money; to compare, submit a replicate"
                )
            self._how = {"engine": "provider"}
            return open_provider(revision.location, revision.requested_revision, engine, settings)
        self._how = {"engine": "openai-endpoint"}
        pace_of = None if engine is None else partial(SharedPace, engine)
        return EndpointModel(open_endpoint(revision.location, revision.requested_revision, None, settings, pace_of))

    def unload(self) -> None:
        """Release the loaded model's memory."""
        if self._model is not None:
            self._model.close()
        self._model = None
        self.loaded_model_revision_id = None

    def _fingerprint(self, definition: Mapping[str, Any]) -> dict[str, object]:
        return {"code": code_identity(), "packages": package_versions(), **self._model.settings(definition)}
