"""Published formats of quantised checkpoints: the formats that can be loaded, their packages, and why others cannot.

Weights are dequantised when they are loaded, so that every engine computes with the plain numbers of the files. Kernels
made for a format compute something else: many round activations, too.

Imports neither torch nor transformers, so that a model's files are checked without them.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from workers.errors import EngineError

READABLE: Final = {
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed_tensors",
    "fp8": None,
    "mxfp4": None,
}
"""The package that reads each format besides transformers, by the format's name in `quantization_config`."""

DEQUANTISED_WHILE_READ: Final = ("compressed-tensors", "fp8", "mxfp4")

ENCODER_TYPES: Final = frozenset(
    {
        *("albert", "bert", "big_bird", "camembert", "data2vec-text", "deberta", "deberta-v2", "distilbert", "electra"),
        *("ernie", "longformer", "megatron-bert", "modernbert", "mpnet", "nomic_bert", "rembert", "roberta"),
        *("roberta-prelayernorm", "roformer", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod"),
    }
)
"""Types of models that are encoders unless their configuration sets `is_decoder`."""

_SERVE: Final = (
    "add the weights that it was made of, or let a server such as vLLM load it and add that with --kind openai"
)


def quantisation_of(folder: Path) -> str | None:
    """Return the quantisation of a model's weights; None if they are not quantised.

    Raises EngineError, with the reason and the remedy, if the weights cannot be loaded here.
    """
    options = _options(folder)
    if options is None:
        return None
    method = options.get("quant_method")
    if method is None and (options.get("load_in_4bit") or options.get("load_in_8bit")):
        method = "bitsandbytes"
    if not isinstance(method, str) or method not in READABLE:
        readable = ", ".join((*READABLE, "GGUF"))
        reason = (
            f"quantised by {str(method)[:40]!r}, which cannot be dequantised while it is loaded (as {readable} can)"
        )
        if method in ("gptq", "awq"):
            reason = f"quantised by {method}, which only kernels of gptqmodel read, compiled for one kind of GPU"
        raise EngineError(f"{folder}: its weights are {reason}; {_SERVE}")
    for option, what in (("transform_config", "rotated"), ("sparsity_config", "sparse")):
        value = options.get(option)
        if isinstance(value, dict) and value and value.get("format") != "dense":
            raise EngineError(f"{folder}: its weights are {what} besides being quantised by {method}; {_SERVE}")
    package = READABLE[method]
    if package is not None and find_spec(package) is None:
        name = package.replace("_", "-")
        raise EngineError(
            f"{folder}: its weights are quantised by {method}, which the package {name} reads; install it here and for "
            f"every worker: pip install {name}"
        )
    return method


def read_quantisation(folder: Path) -> str | None:
    """Return the quantisation stated in a checkpoint, whether or not it can be loaded."""
    options = _options(folder)
    return None if options is None else str(options.get("quant_method"))


def ask_for_plain_weights(config: Any) -> None:
    """Make transformers dequantise a model's weights while it reads them, if it can."""
    options = getattr(config, "quantization_config", None) or config.get_text_config().quantization_config
    if options.get("quant_method") in DEQUANTISED_WHILE_READ:
        options["dequantize"] = True


def dequantise(model: Any) -> Any:
    """Return the model with plain weights, and without the marks that transformers sets on a quantised model."""
    if getattr(model, "is_loaded_in_4bit", False) or getattr(model, "is_loaded_in_8bit", False):
        model = model.dequantize()
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model


def encoder_of(folder: Path) -> str | None:
    """Return the model type if it is an encoder, whose tokens attend to later ones; None for all other models.

    Raises EngineError if the folder's configuration cannot be read.
    """
    config = _configuration(folder)
    kind = config.get("model_type")
    return str(kind) if kind in ENCODER_TYPES and not config.get("is_decoder") else None


def _configuration(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))  # noqa: TID251 - knows no registry
    except OSError as error:
        raise EngineError(f"{folder}: cannot be loaded: its config.json cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise EngineError(f"{path}: not a valid configuration; save the model again")
    return config


def _options(folder: Path) -> dict[str, Any] | None:
    path, config = folder / "config.json", _configuration(folder)
    text = config.get("text_config") or {}
    options = config.get("quantization_config") or (text.get("quantization_config") if isinstance(text, dict) else None)
    if options is not None and not isinstance(options, dict):
        raise EngineError(f"{path}: its quantization_config is not an object; save the model again")
    return options
