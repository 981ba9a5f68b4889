"""Matrix products on the CPU by oneDNN.

In float32 torch multiplies with MKL, which uses its AVX2 code on other makers' processors: 103 GFLOP/s on a processor
that reaches 240 with oneDNN's AVX-512 kernels. Both add in float32. torch offers oneDNN for float32 only to compiled
graphs; this module calls the operators that such graphs call. In bfloat16, packed weights are not rearranged by each
product, and operations after a product are applied before it is written.
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from transformers.pytorch_utils import Conv1D

X86: Final = ("x86_64", "AMD64")

# oneDNN caches compiled kernels for each shape of product, 1024 by default: 60 MiB that no setting limits. The variable
# is read at the first product. 32 shapes are as fast.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")


def bfloat16_by() -> str:
    """Return the unit that multiplies bfloat16 here: `amx`, `avx512`, `arm`, or `emulated`, slower than float32."""
    capabilities = torch.cpu.get_capabilities()
    names = {"amx_bf16": "amx", "avx512_bf16": "avx512", "bf16": "arm"}
    return next((name for feature, name in names.items() if capabilities.get(feature)), "emulated")


def onednn_serves(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether oneDNN computes products of tensors on this device with this type."""
    return (
        device.type == "cpu"
        and (dtype == torch.float32 or (dtype == torch.bfloat16 and bfloat16_by() != "emulated"))
        and platform.machine() in X86
        and torch.backends.mkldnn.is_available()
        and bool(torch.backends.mkldnn.enabled)
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def product(
    inputs: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, activation: str = "none"
) -> torch.Tensor:
    """Return `activation(inputs @ weight.T + bias)` by oneDNN; weight (outputs, inputs) in any layout, or packed.

    activation: `none`, or `swish` for SiLU.
    """
    return torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, activation, [], "")  # noqa: SLF001


def product_times(inputs: torch.Tensor, weight: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Return `(inputs @ weight.T) * factors`; `factors` has the shape of the product."""
    return torch.ops.mkldnn._linear_pointwise.binary(inputs, factors, weight, None, "mul")  # noqa: SLF001


def pack(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """Return a copy of a weight in oneDNN's layout for products with about `rows` rows of inputs."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)  # noqa: SLF001


def is_plain(weight: torch.Tensor) -> bool:
    """Return whether a weight is a plain tensor and not of a subclass, as quantised weights are."""
    return type(weight.detach()) is torch.Tensor


class Products:
    """A model's matrix products by oneDNN. The model's layers are redirected only while it is installed."""

    def __init__(self, model: Any, rows: int, *, packed: bool) -> None:
        """Prepare products of about `rows` tokens.

        packed: whether to copy the weights; else each call rearranges them.
        """
        self._weights = [
            (module, pack(weight, rows) if packed else weight)
            for module in model.base_model.modules()
            if (weight := _plain_weight(module)) is not None
        ]

    @contextmanager
    def install(self) -> Iterator[None]:
        """Make the model's linear layers multiply by oneDNN inside the block."""
        for module, weight in self._weights:
            module.forward = _forward(weight, module.bias)
        try:
            yield
        finally:
            for module, _ in self._weights:
                del module.forward


def _forward(weight: torch.Tensor, bias: torch.Tensor | None) -> Any:
    def forward(inputs: torch.Tensor) -> torch.Tensor:
        return product(inputs, weight, bias)

    return forward


def _plain_weight(module: Any) -> torch.Tensor | None:
    """Return the weight (outputs, inputs) of a linear layer; None if oneDNN cannot multiply by it."""
    if type(module) not in {torch.nn.Linear, Conv1D}:
        return None
    weight = module.weight.detach()
    if not is_plain(weight) or not onednn_serves(weight.device, weight.dtype):
        return None
    return weight.t() if isinstance(module, Conv1D) else weight


def linear_bytes(model: Any) -> int:
    """Return the number of bytes that packing a model's linear layers needs."""
    weights = (_plain_weight(module) for module in model.base_model.modules())
    return sum(weight.numel() * weight.element_size() for weight in weights if weight is not None)


def weight_of_each_shape(model: Any) -> list[torch.Tensor]:
    """Return one weight (outputs, inputs) of each shape among the linear layers that oneDNN computes."""
    weights = (_plain_weight(module) for module in model.base_model.modules())
    return list({weight.shape: weight for weight in weights if weight is not None}.values())
