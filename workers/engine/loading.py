"""Loads a causal language model from a local folder of safetensors. It never runs remote code or reads pickles."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import torch

from workers.checkpoints import ask_for_plain_weights, dequantise, quantisation_of
from workers.engine.adapters import Adapter, AdapterFiles
from workers.engine.batching import begin_text
from workers.errors import EngineError, PermanentError

ORDER_TOKENS: Final = 12
FEWEST_TOKENS: Final = 3
ORDER_TOLERANCE: Final = 0.01
"""Share of a logit's standard deviation: half precision changes logits by less, and a visible token by more."""


_checked: Final[WeakSet[Any]] = WeakSet()
"""Models that passed `check_order`; a copy of their `LoadedModel` need not repeat it."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to score, with its tokenizer. Creating one checks that its tokens attend to earlier ones only.

    max_length: tokens of its context; None if its configuration does not state it. adapter: `merged` or `unmerged`;
    None without one.
    """

    model: Any
    tokenizer: Any
    device: torch.device
    dtype: str
    quantisation: str | None
    max_length: int | None
    adapter: str | None = None

    def __post_init__(self) -> None:
        """Check the model here, so that every function that loads a model includes the check."""
        # vLLM's weights are in another process, which accepts no encoder.
        if isinstance(self.model, torch.nn.Module) and self.model not in _checked:
            check_order(self.model, len(self.tokenizer) if hasattr(self.tokenizer, "__len__") else None)
            _checked.add(self.model)


def choose_device(name: str | None = None) -> torch.device:
    """Return the requested device; without a request the first GPU or, without a GPU, the CPU."""
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
    chat_template: str | None = None,
) -> LoadedModel:
    """Load the model and tokenizer in `folder`.

    quantisation: `int8-weight-only` keeps the weights of linear layers as int8 with a scale per output channel; the
    weights of an unmerged adapter stay unchanged. Weights that are stored quantised are dequantised. chat_template:
    used instead of the tokenizer's own.
    Raises EngineError if the folder cannot be loaded safely, or the adapter does not fit.
    """
    chosen = choose_device(device)
    stored = quantisation_of(folder)
    if stored is not None and quantisation is not None:
        raise PermanentError(f"{folder}: its weights are quantised by {stored} already; load it without {quantisation}")
    model, tokenizer = _read(folder, dtype, stored)
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    model.eval()
    if adapter is not None:
        model = AdapterFiles(adapter.folder).apply_to(model, merged=adapter.merged)
    if quantisation == "int8-weight-only":
        _quantise_int8(model)
    elif quantisation is not None:
        raise PermanentError(f"unknown quantisation {quantisation!r}")
    model.to(chosen)
    if chosen.type == "cuda":
        # It takes a tenth of a second to plan each new shape, and two batches rarely have the same shape.
        torch.backends.cuda.enable_cudnn_sdp(False)
    limit = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    applied = None if adapter is None else "merged" if adapter.merged else "unmerged"
    if stored is not None:
        quantisation = f"{stored}, dequantised"
    return LoadedModel(model, tokenizer, chosen, dtype, quantisation, limit, applied)


def _read(folder: Path, dtype: str, stored: str | None) -> tuple[Any, Any]:
    """Return model and tokenizer. stored: the files' quantisation, which is undone; None without one."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        if stored is not None:
            ask_for_plain_weights(config)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
            output_loading_info=True,
        )
        model, outcome = loaded
    except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise EngineError(f"{folder} cannot be loaded: {reason}") from error
    if stored is not None:
        model = dequantise(model)
    # Weights missing from the files were initialised at random; unread weights belong to another model or format.
    unread = outcome["missing_keys"] or (stored is not None and outcome["unexpected_keys"])
    if unread:
        raise PermanentError(
            f"{folder}: its weights are not those of the model in its config.json, such as {min(unread)}; save it "
            "again",
            of_all=True,
        )
    _check_vocabulary(folder, model, tokenizer)
    return model, tokenizer


def _check_vocabulary(folder: Path, model: Any, tokenizer: Any) -> None:
    """Check that the model has an embedding for each token of the vocabulary, apart from added tokens."""
    rows, tokens = getattr(model.get_input_embeddings(), "num_embeddings", None), tokenizer.vocab_size
    if rows is not None and tokens > rows:
        raise PermanentError(
            f"{folder}: its tokenizer has {tokens:,} tokens and its model knows {rows:,}; save the model with the "
            "tokenizer that it was trained with",
            of_all=True,
        )


def check_order(model: Any, vocabulary: int | None = None) -> None:
    """Check that tokens attend to earlier ones only: another last token must not change the earlier positions.

    vocabulary: number of the tokenizer's tokens; None: as many as the model has. Raises PermanentError for an encoder,
    and for weights that are not finite numbers.
    """
    config = model.config.get_text_config()
    sizes = [size for size in (vocabulary, getattr(config, "vocab_size", None)) if size]
    vocabulary_ids = range(min(sizes, default=0))
    special = gather_tokens(getattr(config, f"{name}_token_id", None) for name in ("bos", "eos", "pad"))
    tokens = [
        token for token in vocabulary_ids[:: max(1, len(vocabulary_ids) // ORDER_TOKENS)] if token not in special
    ][:ORDER_TOKENS]
    if len(tokens) < FEWEST_TOKENS:
        return
    texts = torch.tensor([tokens[:-1], [*tokens[:-2], tokens[-1]]], device=model.device)
    begin_text(model)
    try:
        with torch.no_grad():
            logits = model(input_ids=texts, use_cache=False).logits[:, :-1].double()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise PermanentError(
            f"models of type {config.model_type} cannot read a text alone ({reason}); use another model", of_all=True
        ) from error
    if not logits.isfinite().all():
        broken = [name for name, weights in model.named_parameters() if not weights.isfinite().all()]
        if broken:
            message = f"{broken[0]} has weights that are not numbers; save the model, or fetch it, again"
            raise PermanentError(message, of_all=True)
        return  # numbers overflow: scoring raises an error with its remedy
    moved = (logits[0] - logits[1]).abs().max().item()
    if moved > ORDER_TOLERANCE * max(1.0, logits.std().item()):
        raise PermanentError(
            f"models of type {config.model_type} attend to later tokens, so that an answer would be scored with itself "
            "in view; use a model that writes text from left to right",
            of_all=True,
        )


def gather_tokens(stated: Iterable[Any]) -> set[int]:
    """Return the tokens that a configuration states: each is None, one token or, as many end tokens are, a list."""
    ids: set[int] = set()
    for tokens in stated:
        ids |= set(tokens) if isinstance(tokens, (list, tuple)) else {tokens} - {None}
    return ids


def _quantise_int8(model: Any) -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    def is_own(module: Any, name: str) -> bool:
        return isinstance(module, torch.nn.Linear) and ".lora_" not in name

    quantize_(model, Int8WeightOnlyConfig(), filter_fn=is_own)
