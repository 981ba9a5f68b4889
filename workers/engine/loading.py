"""Loads a causal language model from a local folder of safetensors. Remote code is never run, pickles never read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workers.engine.adapters import Adapter, AdapterFiles
from workers.errors import EngineError


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to score, with its tokenizer.

    max_length: tokens its context holds; None when its configuration does not say. adapter: how one is applied,
    `merged` or `unmerged`; None without one.
    """

    model: Any
    tokenizer: Any
    device: torch.device
    dtype: str
    quantisation: str | None
    max_length: int | None
    adapter: str | None = None


def choose_device(name: str | None = None) -> torch.device:
    """The device asked for, else the first GPU, else the CPU."""
    if name:
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def load_model(
    folder: Path,
    *,
    dtype: str = "float32",
    quantisation: str | None = None,
    device: str | None = None,
    adapter: Adapter | None = None,
) -> LoadedModel:
    """Loads the model and tokenizer of `folder`.

    quantisation: `int8-weight-only` keeps the weights of linear layers as int8 with a scale per output channel; those of an unmerged adapter stay as they are.
    Raises EngineError when the folder cannot be loaded safely, or the adapter does not fit.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    chosen = choose_device(device)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=getattr(torch, dtype),
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise EngineError(f"{folder} cannot be loaded: {reason}") from error
    model.eval()
    if adapter is not None:
        model = AdapterFiles(adapter.folder).put_into(model, merged=adapter.merged)
    if quantisation == "int8-weight-only":
        _quantise_int8(model)
    elif quantisation is not None:
        raise EngineError(f"unknown quantisation {quantisation!r}")
    model.to(chosen)  # type: ignore[arg-type]
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    applied = None if adapter is None else "merged" if adapter.merged else "unmerged"
    return LoadedModel(model, tokenizer, chosen, dtype, quantisation, limit, applied)


def _quantise_int8(model: Any) -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    def is_own(module: Any, name: str) -> bool:
        return isinstance(module, torch.nn.Linear) and ".lora_" not in name

    quantize_(model, Int8WeightOnlyConfig(), filter_fn=is_own)
