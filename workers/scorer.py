"""The scorer: keeps one model loaded and scores shards with it."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import structlog
from sqlalchemy import Engine

from registry.db import read_session
from registry.models import ModelRevision
from registry.queue import Claim, ShardResult
from registry.shards import rows_of, shard_prompts
from workers.fingerprint import code_identity, package_versions

_log = structlog.get_logger()


class Scorer(Protocol):
    """What the worker loop needs of an engine; the tests' deterministic engine is the other one."""

    loaded_model_revision_id: int | None

    def device(self) -> str:
        """The device as shown to users."""
        ...

    def versions(self) -> dict[str, str]:
        """Package versions that could move a number."""
        ...

    def score(self, engine: Engine, claim: Claim, should_stop: Callable[[], bool]) -> ShardResult:
        """Scores one shard; may raise anything, which counts as a failure of the shard."""
        ...


class TransformersScorer:
    """Scores with transformers. torch is imported at the first shard, in the process that then keeps it."""

    def __init__(self, home: Path, device: str | None = None) -> None:
        self.home = home
        self.loaded_model_revision_id: int | None = None
        self._device_name = device
        self._loaded: Any = None

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
        """Builds the shard's prompts, loads its model if another one is loaded, and scores."""
        from workers.engine import ScoringPrompt, score_batched

        with read_session(engine) as session:
            prompts = shard_prompts(session, claim.shard_id)
            self._load(session.get_one(ModelRevision, claim.model_revision_id))
        started = time.perf_counter()
        scored = score_batched(
            self._loaded,
            [ScoringPrompt(item.prompt.text, item.prompt.continuations) for item in prompts],
            should_stop=should_stop,
        )
        return ShardResult(
            rows=rows_of(prompts, scored.logprobs),
            fingerprint=self._fingerprint(),
            tokens_naive=scored.tokens_naive,
            tokens_computed=scored.tokens_computed,
            elapsed_s=time.perf_counter() - started,
        )

    def _load(self, revision: ModelRevision) -> None:
        if self.loaded_model_revision_id == revision.id:
            return
        quiet_libraries()
        from workers.artifacts import model_folder
        from workers.engine import load_model

        self.unload()
        started = time.perf_counter()
        folder = model_folder(revision, self.home)
        self._loaded = load_model(
            folder,
            dtype=revision.dtype or "float32",
            quantisation=revision.quantisation,
            device=self._device_name,
        )
        self.loaded_model_revision_id = revision.id
        elapsed = round(time.perf_counter() - started, 1)
        _log.info("model_loaded", model=revision.model.name, revision=revision.number, elapsed_s=elapsed)

    def unload(self) -> None:
        """Lets go of the loaded model's memory."""
        self._loaded = None
        self.loaded_model_revision_id = None

    def _fingerprint(self) -> dict[str, object]:
        import torch

        from workers.engine.batched import BATCH_TOKENS

        return {
            "code": code_identity(),
            "packages": package_versions(),
            "engine": "transformers-batched",
            "batch_tokens": BATCH_TOKENS,
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
