"""The engine that serves a model on this host, and the reason, found without loading the model."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from registry.errors import ModelError
from registry.tables import QUEUES, ModelRevision
from workers.model_types import WEIGHTS_SHARE, why_no_trie
from workers.tokenizer import local_files

SHARE_OF_NAME: Final = 0.9
"""Share of a GPU's nominal memory that is at least available."""

_CLASSES: Final = {name: int(name.removeprefix("gpu-")) for name in QUEUES if name.startswith("gpu-")}
"""Memory of the GPUs of each queue, in GB."""


@dataclass(frozen=True)
class Choice:
    """An engine's name, None if it is not known, and the reason why there is no engine or no faster one."""

    engine: str | None
    because: str | None = None

    def __str__(self) -> str:
        if self.engine is None:
            return f"unknown: {self.because}"
        return self.engine if self.because is None else f"{self.engine}, since {self.because}"


def choices(revision: ModelRevision, home: Path) -> dict[str, Choice]:
    """Return, by queue, the engine that a worker of this host uses."""
    if revision.kind == "openai":
        return dict.fromkeys(("cpu", "gpu"), Choice("its server"))
    if revision.kind == "external":
        return dict.fromkeys(("cpu", "gpu"), Choice(None, "its outputs were imported, and it cannot be asked"))
    try:
        folder, _ = local_files(revision, home)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))  # noqa: TID251 - a model's own file
    except ModelError as error:
        return dict.fromkeys(("cpu", "gpu"), Choice(None, str(error)))
    except OSError:
        return dict.fromkeys(("cpu", "gpu"), Choice(None, "its file is converted when it is first scored"))
    tree = why_no_trie(_Configuration(config))
    vllm = why_not_vllm(folder, quantisation=revision.quantisation, merged_adapter=bool(revision.adapter_merged))
    return {
        "cpu": Choice("token trie") if tree is None else Choice("batches", tree),
        "gpu": Choice(f"vLLM {vllm_version()}") if vllm is None else Choice("batches", vllm),
    }


@dataclass(frozen=True)
class Room:
    """The memory that a model needs on a GPU. Both values are None if the files are not on this host.

    weights_gib: GiB of the weights in their precision. smallest: the queue of the smallest GPUs that fit the weights;
    None if no class of GPUs is large enough.
    """

    weights_gib: float | None = None
    smallest: str | None = None


def room(revision: ModelRevision, home: Path) -> Room:
    """Return the GPU memory that a model needs."""
    try:
        folder, _ = local_files(revision, home)
    except ModelError:
        return Room()
    weights = weights_bytes(folder, revision.dtype or "float32")
    if not weights:
        return Room()
    return Room(round(weights / 2**30, 2), next(iter(classes_that_hold(weights)), None))


def weights_bytes(folder: Path, dtype: str) -> int:
    """Return the bytes of a folder's safetensors in a precision; 0 if there are none."""
    from safetensors import safe_open

    parameters = 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="numpy") as weights:
            parameters += sum(prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    return parameters * (4 if dtype == "float32" else 2)


def classes_of(memory_bytes: int) -> list[str]:
    """Return the queues that a GPU of this size, or several GPUs together, serves besides `gpu`."""
    return [name for name, size in _CLASSES.items() if memory_bytes >= SHARE_OF_NAME * size * 10**9]


def classes_that_hold(weights: int) -> list[str]:
    """Return the queues whose GPUs fit these bytes of weights and the computation, the smallest GPUs first."""
    return [name for name, size in _CLASSES.items() if weights <= WEIGHTS_SHARE * SHARE_OF_NAME * size * 10**9]


class _Configuration(SimpleNamespace):
    """A model's `config.json` with the interface of transformers' configurations, as far as it is used here."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        older = document.get("rope_scaling") or {}
        rope = {"rope_type": older.get("type"), **older}
        super().__init__(**{"rope_parameters": rope, **document})

    def get_text_config(self) -> "_Configuration":
        text = getattr(self, "text_config", None)
        return self if text is None else _Configuration(text)


def why_not_vllm(folder: Path, *, quantisation: str | None = None, merged_adapter: bool = False) -> str | None:
    """Return why a model cannot run in vLLM on a GPU of this host; None if it can."""
    if not vllm_version():
        return "vLLM is not installed on this host (pip install vllm)"
    if quantisation is not None:
        return f"it is quantised here, by {quantisation}"
    if merged_adapter:
        return "its adapter is merged into the weights here"
    from workers.engine.vllm_engine import unknown_to_vllm

    return unknown_to_vllm(folder)


def vllm_version() -> str | None:
    """Return the version of the installed vLLM; None without one."""
    if find_spec("vllm") is None:
        return None
    with suppress(PackageNotFoundError):
        return version("vllm")
    return None
