"""Matrix products on the CPU by oneDNN.

In float32 torch multiplies with MKL, which takes its AVX2 path on other makers' processors: 103 GFLOP/s on a processor
that does 240 with oneDNN's AVX-512 kernels. Both add in float32. torch offers oneDNN for float32 only to compiled
graphs;
these are the operators that they call. In bfloat16 weights packed for it are not rearranged by each product, and
operations after a product are applied before it is written.
"""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from transformers.pytorch_utils import Conv1D

X86: Final = ("x86_64", "AMD64")

# oneDNN caches compiled kernels for each shape of product, by default 1024: 60 MiB that no setting bounds. The variable
# is read at its first product. 32 shapes are as fast.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "32")


def bfloat16_by() -> str:
    """Return the unit that multiplies bfloat16 here: `amx`, `avx512`, `arm`, or `emulated`, slower than float32."""
    found = torch.cpu.get_capabilities()
    names = {"amx_bf16": "amx", "avx512_bf16": "avx512", "bf16": "arm"}
    return next((name for feature, name in names.items() if found.get(feature)), "emulated")


def onednn_serves(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether products of such tensors go through oneDNN."""
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
    """Return `(inputs @ weight.T) * factors`; factors of the product's shape."""
    return torch.ops.mkldnn._linear_pointwise.binary(inputs, factors, weight, None, "mul")  # noqa: SLF001


def pack(weight: torch.Tensor, rows: int) -> torch.Tensor:
    """Return a copy of a weight in the layout for products with about `rows` rows of inputs."""
    return torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)  # noqa: SLF001


def is_plain(weight: torch.Tensor) -> bool:
    """Return whether a weight is a plain tensor, not of a type of its own as quantised ones are."""
    return type(weight.detach()) is torch.Tensor


class Products:
    """A model's matrix products by oneDNN. The model stays as it is: its layers are redirected only while installed."""

    def __init__(self, model: Any, rows: int, *, packed: bool) -> None:
        """Prepare products of about `rows` tokens at once. packed: copy the weights; else each call rearranges them."""
        self._weights = [
            (module, pack(weight, rows) if packed else weight)
            for module in model.base_model.modules()
            if (weight := _plain_weight(module)) is not None
        ]

    @contextmanager
    def install(self) -> Iterator[None]:
        """Let the model's linear layers multiply by oneDNN inside the block."""
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
    """Return the weight (outputs, inputs) of a linear layer that is neither quantised nor of another type."""
    if type(module) not in {torch.nn.Linear, Conv1D}:
        return None
    weight = module.weight.detach()
    if not is_plain(weight) or not onednn_serves(weight.device, weight.dtype):
        return None
    return weight.t() if isinstance(module, Conv1D) else weight


def linear_bytes(model: Any) -> int:
    """Return the bytes that packing a model's linear layers takes."""
    weights = (_plain_weight(module) for module in model.base_model.modules())
    return sum(weight.numel() * weight.element_size() for weight in weights if weight is not None)


def weight_of_each_shape(model: Any) -> list[torch.Tensor]:
    """Return one weight (outputs, inputs) of each shape among a model's linear layers that go through oneDNN."""
    weights = (_plain_weight(module) for module in model.base_model.modules())
    return list({weight.shape: weight for weight in weights if weight is not None}.values())
