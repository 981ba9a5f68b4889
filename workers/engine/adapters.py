"""Low-rank adapters (LoRA) as PEFT saves them: reading, checking against a model, and applying to it.

Both files of an adapter are untrusted. The size of the configuration is limited, options that may change the forward
pass are refused, and the adapted modules and their ranks are taken from the weights, so that no pattern of the
configuration is run as a regular expression. PEFT's own layers then compute.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from workers.errors import EngineError

CONFIG: Final = "adapter_config.json"
WEIGHTS: Final = "adapter_model.safetensors"

CONFIG_BYTES: Final = 1 << 20
"""Limit on the size of a configuration; the longest ones list every adapted module by its full name."""
MOST_TENSORS: Final = 100_000
LARGEST: Final = 1e9
"""Largest number in the configuration, such as a rank or a scale."""

_KEY: Final = re.compile(
    r"base_model\.model\.([A-Za-z0-9_.]+)\.(?:lora_([AB])\.weight|(lora_magnitude_vector)(?:\.weight)?)"
)
_LITERAL: Final = re.compile(r"\^?[A-Za-z0-9_.-]+")
_PLAIN_STARTS: Final = (True, False, None, "gaussian", "eva", "orthogonal")
"""Initialisations of training that leave the base model's weights unchanged."""

_WITHOUT_EFFECT: Final = frozenset(
    {
        "arrow_config",
        "auto_mapping",
        "base_model_name_or_path",
        "corda_config",
        "ensure_weight_tying",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",  # taken from the module
        "inference_mode",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_dropout",
        "lora_ga_config",
        "megatron_core",
        "peft_version",
        "qalora_group_size",
        "rank_pattern",  # taken from the weights
        "revision",
        "runtime_config",
        "target_modules",  # taken from the weights
    }
)
"""Options that change nothing once the weights are trained, or that follow from the weights."""

_REASONS: Final = {
    "modules_to_save": "it replaces whole modules of the base",
    "trainable_token_indices": "it changes embeddings",
    "alora_invocation_tokens": "it acts only behind certain tokens",
    "layer_replication": "it repeats layers of the base",
    "target_parameters": "it adapts parameters that are no linear layers",
    "bias": "it changes the base's biases",
    "lora_bias": "it adds biases",
}
_MERGE: Final = "merge it with PEFT (merge_and_unload), save the model as safetensors and add that folder"


@dataclass(frozen=True)
class Adapter:
    """An adapter to load with a model. merged: whether it is added to the weights or computed next to them."""

    folder: Path
    merged: bool


@dataclass(frozen=True)
class _Target:
    """An adapted module.

    shapes: shapes of its tensors by part: A, B and lora_magnitude_vector. keys: the tensors' names in the file.
    """

    module: str
    shapes: dict[str, list[int]]
    keys: dict[str, str]

    @property
    def rank(self) -> int:
        return self.shapes["A"][0]


class AdapterFiles:
    """The files of an adapter, checked as far as possible without a model."""

    def __init__(self, folder: Path) -> None:
        """Read the files. Raises EngineError if they are unreadable, or for an adapter that is not supported here."""
        self.folder = folder
        self._options = _read_options(folder / CONFIG)
        self._refuse_others()
        self.base: str | None = self._optional("base_model_name_or_path", str)
        """The base model that the adapter names: a hub name, or a path on the machine that trained it."""
        self._alpha = self._number("lora_alpha", self._options.get("lora_alpha", 8))
        self._rank_stabilised = self._flag("use_rslora")
        self._magnitudes = self._flag("use_dora")
        self._alphas = {
            _literal(folder, key): self._number(f"alpha_pattern {key}", value)
            for key, value in (self._optional("alpha_pattern", dict) or {}).items()
        }
        self._targets = self._read_targets()

    def check_base(self, folder: Path) -> None:
        """Check that the adapter fits the model in a folder, without reading its weights. Raises EngineError."""
        from transformers import AutoConfig, AutoModelForCausalLM

        try:
            config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            with torch.device("meta"):
                model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            reason = " ".join(str(error).split())[:300]
            raise EngineError(f"{folder} cannot be loaded: {reason}") from None
        self.check(model)

    def check(self, model: Any) -> None:
        """Check that the adapter fits a model; its tensors may be on the meta device. Raises EngineError."""
        inner = dict(model.base_model.named_modules())
        prefix = f"{model.base_model_prefix}."
        for target in self._targets:
            module = inner.get(target.module.removeprefix(prefix)) if target.module.startswith(prefix) else None
            if module is None:
                raise self._error(
                    f"adapts {target.module}, which the base has not among its layers; "
                    + (_MERGE if "lm_head" in target.module else "name the base that it was trained on")
                )
            sizes = _linear_sizes(module)
            if sizes is None:
                raise self._error(
                    f"adapts {target.module}, which is not a linear layer but {type(module).__name__}; {_MERGE}"
                )
            expected = {"A": [target.rank, sizes[0]], "B": [sizes[1], target.rank]}
            if self._magnitudes:
                expected["lora_magnitude_vector"] = [sizes[1]]
            if target.shapes != expected:
                raise self._error(
                    f"the weights for {target.module} have the shapes {_format_shapes(target.shapes)}, and the base "
                    f"needs {_format_shapes(expected)}; name the base that it was trained on"
                )
        self._check_complete(inner, prefix)

    def apply_to(self, model: Any, *, merged: bool) -> Any:
        """Return the model with the adapter, either merged into its weights or as PEFT's layers next to its own.

        An adapter's weights stay in float32, as in PEFT, whatever the model's precision.
        Raises EngineError as `check` does, and if merging gives values that are not finite.
        """
        from peft import LoraConfig, LoraModel

        self.check(model)
        transposed = {type(model.get_submodule(target.module)) is not torch.nn.Linear for target in self._targets}
        if len(transposed) > 1:
            raise self._error(f"adapts two kinds of linear layers at once; {_MERGE}")
        config = LoraConfig(
            r=self._targets[0].rank,
            lora_alpha=self._alpha,
            use_rslora=self._rank_stabilised,
            use_dora=self._magnitudes,
            fan_in_fan_out=transposed.pop(),
            target_modules=[target.module for target in self._targets],
            rank_pattern={_exactly(target.module): target.rank for target in self._targets},
            alpha_pattern={_exactly(target.module): self._alpha_of(target.module) for target in self._targets},
        )
        with torch.random.fork_rng(devices=[]):
            tuner: Any = LoraModel(model, config, "default")
        outcome = model.load_state_dict(dict(self._tensors()), strict=False, assign=True)
        assert not outcome.unexpected_keys
        if merged:
            # Not `safe_merge`, which rounds twice if the base is in a low precision.
            model = tuner.merge_and_unload()
            for target in self._targets:
                if not model.get_submodule(target.module).weight.isfinite().all():
                    raise self._error(f"cannot be merged: weights of {target.module} are no longer finite")
        return model.eval()

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        from safetensors import safe_open

        with safe_open(self.folder / WEIGHTS, framework="pt") as stored:
            for target in self._targets:
                for part, key in target.keys.items():
                    place = "lora_magnitude_vector" if part not in "AB" else f"lora_{part}"
                    yield f"{target.module}.{place}.default.weight", stored.get_tensor(key).to(torch.float32)

    def _error(self, problem: str) -> EngineError:
        return EngineError(f"{self.folder}: the adapter {problem}")

    def _refuse_others(self) -> None:
        kind = self._options.get("peft_type")
        if kind != "LORA":
            virtual = str(kind).endswith(("TUNING", "P_TUNING")) or kind == "CPT"
            raise self._error(
                f"is of the kind {str(kind)[:40]!r}; only LORA can be loaded: "
                + ("its virtual tokens stand in no prompt, so a server must hold it" if virtual else _MERGE)
            )
        task = self._options.get("task_type")
        if task not in (None, "CAUSAL_LM"):
            raise self._error(f"is for the task {str(task)[:40]!r}; only CAUSAL_LM can be asked")
        start = self._options.get("init_lora_weights")
        if start not in _PLAIN_STARTS:
            raise self._error(
                f"was begun with {str(start)[:40]!r}, which changes the base's weights; convert it to a plain LoRA "
                "when saving it with PEFT (path_initial_model_for_weight_conversion)"
            )
        supported = {
            *("alpha_pattern", "init_lora_weights", "lora_alpha", "peft_type", "r", "task_type"),
            *("use_dora", "use_rslora"),
        }
        for name, value in self._options.items():
            if name in supported | _WITHOUT_EFFECT or not value or (name, value) == ("bias", "none"):
                continue
            reason = _REASONS.get(name, "this version does not know what it changes")
            raise self._error(f"has the option {name[:60]!r}: {reason}; {_MERGE}")

    def _read_targets(self) -> list[_Target]:
        modules: dict[str, tuple[dict[str, list[int]], dict[str, str]]] = {}
        for key, shape in _read_shapes(self.folder / WEIGHTS):
            match = _KEY.fullmatch(key)
            if match is None:
                changes = "embeddings or the vocabulary" if re.search(r"embed|lm_head|wte", key) else "more than that"
                raise self._error(
                    f"holds {key[:120]!r}: not a low-rank matrix of a linear layer but {changes}; {_MERGE}"
                )
            shapes, keys = modules.setdefault(match[1], ({}, {}))
            part = match[2] or match[3]
            shapes[part], keys[part] = shape, key
        if not modules:
            raise self._error("holds no weights; save it again")
        parts = {"A", "B", "lora_magnitude_vector"} if self._magnitudes else {"A", "B"}
        for module, (shapes, _) in modules.items():
            if shapes.keys() != parts or len(shapes["A"]) != 2 or 0 in shapes["A"]:
                raise self._error(f"has not the matrices of {module[:120]} that its configuration needs; save it again")
        targets = [_Target(module, *modules[module]) for module in sorted(modules)]
        rank = self._number("r", self._options.get("r", 8))
        if not self._options.get("rank_pattern"):
            for target in targets:
                if target.rank != rank:
                    raise self._error(f"has weights of rank {target.rank} and r={rank:g} in {CONFIG}; save it again")
        return targets

    def _check_complete(self, inner: Mapping[str, Any], prefix: str) -> None:
        """Check that every module in a plain list of names has weights; it would otherwise count as not adapted."""
        listed = self._options.get("target_modules")
        if (
            not isinstance(listed, list)
            or self._options.get("exclude_modules")
            or self._options.get("layers_to_transform")
        ):
            return
        adapted = {target.module for target in self._targets}
        for name in map(str, listed):
            meant = [
                prefix + path for path in inner if (prefix + path) == name or f".{prefix}{path}".endswith(f".{name}")
            ]
            lacking = [path for path in meant if path not in adapted]
            if lacking or not meant:
                raise self._error(
                    f"names {name[:120]!r} in target_modules and has no weights for {(lacking or [name])[0][:120]!r}; "
                    "save it again, or name the base that it was trained on"
                )

    def _alpha_of(self, module: str) -> float:
        for key, alpha in self._alphas.items():
            name = key.removeprefix("^")
            if module == name or (name == key and module.endswith(f".{name}")):
                return alpha
        return self._alpha

    def _optional(self, name: str, kind: type) -> Any:
        value = self._options.get(name)
        if value is not None and not isinstance(value, kind):
            raise self._error(f"has {name}={str(value)[:60]!r} in {CONFIG}, which is not a {kind.__name__}")
        return value

    def _flag(self, name: str) -> bool:
        return bool(self._optional(name, bool))

    def _number(self, name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
            raise self._error(f"has {name[:60]}={str(value)[:60]!r} in {CONFIG}, which is not a positive number")
        return value


def has_adapter(model: Any) -> bool:
    """Return whether a model has layers of an adapter next to its own."""
    return any(hasattr(module, "lora_A") for module in model.modules())


def _read_options(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as stream:
            text = stream.read(CONFIG_BYTES + 1)
        options = json.loads(text) if len(text) <= CONFIG_BYTES else None  # noqa: TID251 - bounded, and knows no registry
    except OSError as error:
        raise EngineError(f"{path}: cannot be read ({error.strerror}); name the adapter's folder") from None
    except (ValueError, RecursionError):
        raise EngineError(f"{path}: not valid JSON; save the adapter again") from None
    if not isinstance(options, dict):
        raise EngineError(f"{path}: not a JSON object of at most {CONFIG_BYTES >> 10} KiB; save the adapter again")
    return options


def _read_shapes(path: Path) -> list[tuple[str, list[int]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as stored:
            keys = stored.keys()
            if len(keys) > MOST_TENSORS:
                raise EngineError(f"{path}: holds more than {MOST_TENSORS} tensors; name an adapter's folder")
            return [(key, list(stored.get_slice(key).get_shape())) for key in keys]
    except (SafetensorError, OSError) as error:
        reason = " ".join(str(error).split())[:160]
        raise EngineError(f"{path}: cannot be read as safetensors ({reason}); save the adapter again") from None


def _linear_sizes(module: Any) -> tuple[int, int] | None:
    """Return (inputs, outputs) of a linear layer; None for others."""
    from transformers.pytorch_utils import Conv1D

    if type(module) is torch.nn.Linear:
        return module.in_features, module.out_features
    return (module.nx, module.nf) if type(module) is Conv1D else None


def _literal(folder: Path, key: str) -> str:
    if _LITERAL.fullmatch(key):
        return key
    raise EngineError(
        f"{folder}: the adapter has a pattern in alpha_pattern, {key[:60]!r}; write out the modules' names"
    )


def _exactly(module: str) -> str:
    return f"^{re.escape(module)}"


def _format_shapes(shapes: Mapping[str, list[int]]) -> str:
    return ", ".join(f"{part} {' × '.join(map(str, shape))}" for part, shape in sorted(shapes.items()))
