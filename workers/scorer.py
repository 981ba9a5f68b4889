"""The scorer: keeps one model loaded and scores shards with it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import structlog
from sqlalchemy import Engine

from registry.db import read_session
from registry.models import ModelRevision
from registry.queue import Claim, ShardResult
from registry.reuse import reusable
from registry.shards import rows_of, shard_prompts
from workers.fingerprint import code_identity, package_versions

ENGINES: Final = ("trie", "batched", "reference")
"""The engines, the default first; named here too, so that the command line need not import torch."""

_log = structlog.get_logger()


class Scorer(Protocol):
    """What the worker loop needs of an engine; the tests' deterministic engine is the other one."""

    loaded_model_revision_id: int | None
    budget_tokens: int
    """Tokens of one batch; lowered when memory runs out."""

    def device(self) -> str:
        """The device as shown to users."""
        ...

    def versions(self) -> dict[str, str]:
        """Package versions that could move a number."""
        ...

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        """Scores one shard; may raise anything, which counts as a failure of the shard."""
        ...

    def unload(self) -> None:
        """Lets go of the loaded model's memory."""
        ...


class TransformersScorer:
    """Scores with transformers. torch is imported at the first shard, in the process that then keeps it."""

    def __init__(
        self, home: Path, device: str | None = None, *, engine: str = "trie", memory_mb: int | None = None
    ) -> None:
        """engine: `trie`, `batched` or `reference`. memory_mb: what scoring may take beside the model, in MiB."""
        self.home = home
        self.loaded_model_revision_id: int | None = None
        self._device_name = device
        self._engine_name = engine
        self._memory_bytes = memory_mb and memory_mb << 20
        self._budget_tokens: int | None = None
        self._loaded: Any = None
        self._engine: Any = None

    @property
    def budget_tokens(self) -> int:
        """Tokens of one pass or batch."""
        if self._budget_tokens is None:
            from workers.engine.loading import choose_device
            from workers.engine.trie_engine import BUDGET_TOKENS

            self._budget_tokens = BUDGET_TOKENS.get(choose_device(self._device_name).type, BUDGET_TOKENS["cpu"])
        return self._budget_tokens

    @budget_tokens.setter
    def budget_tokens(self, tokens: int) -> None:
        self._budget_tokens = tokens

    def device(self) -> str:
        """`cpu`, or the GPU's name."""
        import torch

        from workers.engine.loading import choose_device

        device = choose_device(self._device_name)
        return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"

    def versions(self) -> dict[str, str]:
        """Package versions that could move a number."""
        return package_versions()

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        """Builds the shard's prompts, loads its model if another is loaded, and scores what was not scored before."""
        from workers.engine import ScoringPrompt

        with read_session(engine) as session:
            prompts = shard_prompts(session, claim.shard_id)
            self._load(session.get_one(ModelRevision, claim.model_revision_id))
        started = time.perf_counter()
        self._engine.budget_tokens = self.budget_tokens
        fingerprint = self._fingerprint()
        with read_session(engine) as session:
            reused = reusable(session, claim.evaluation_id, fingerprint, prompts)
        asked = [item for place, item in enumerate(prompts) if place not in reused]
        scored = self._engine.score(
            [ScoringPrompt(item.prompt.text, item.prompt.continuations, item.question_id) for item in asked],
            should_stop=should_stop,
        )
        new = iter(scored.logprobs)
        rows = rows_of(
            prompts, [reused[place].logprobs if place in reused else next(new) for place in range(len(prompts))]
        )
        for place, source in reused.items():
            rows[place] |= source.pointer()
        saved = sum(len(self._loaded.tokenizer(prompts[place].prompt.text)["input_ids"]) for place in reused)
        return ShardResult(
            rows=rows,
            fingerprint=fingerprint,
            tokens_naive=scored.tokens_naive + saved,
            tokens_computed=scored.tokens_computed,
            elapsed_s=time.perf_counter() - started,
        )

    def _load(self, revision: ModelRevision) -> None:
        if self.loaded_model_revision_id == revision.id:
            return
        quiet_libraries()
        from workers.artifacts import model_folder
        from workers.engine import load_model, open_engine

        self.unload()
        started = time.perf_counter()
        folder = model_folder(revision, self.home)
        self._loaded = load_model(
            folder,
            dtype=revision.dtype or "float32",
            quantisation=revision.quantisation,
            device=self._device_name,
        )
        self._engine = open_engine(
            self._loaded, self._engine_name, budget_tokens=self.budget_tokens, memory_bytes=self._memory_bytes
        )
        self.loaded_model_revision_id = revision.id
        elapsed = round(time.perf_counter() - started, 1)
        settings = self._engine.settings()
        how = {name: settings[name] for name in ("engine", "strategy", "because") if name in settings}
        _log.info("model_loaded", model=revision.model.name, revision=revision.number, elapsed_s=elapsed, **how)

    def unload(self) -> None:
        """Lets go of the loaded model's memory."""
        self._loaded = self._engine = None
        self.loaded_model_revision_id = None

    def _fingerprint(self) -> dict[str, object]:
        import torch

        return {
            "code": code_identity(),
            "packages": package_versions(),
            **self._engine.settings(),
            "device": self.device(),
            "dtype": self._loaded.dtype,
            "quantisation": self._loaded.quantisation,
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        }


def quiet_libraries() -> None:
    """Keeps progress bars and notes of the model libraries out of the worker's log."""
    import logging
    import os

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DISABLE", "1")
    logging.getLogger("torchao").setLevel(logging.ERROR)
    logging.getLogger("torch.utils._pytree").setLevel(logging.ERROR)
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
