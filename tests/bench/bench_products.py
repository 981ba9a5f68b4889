"""How fast torch and oneDNN multiply by the weights of a model's layer: `python -m tests.bench.bench_products`.

One thread, CPU time. Both libraries take turns at each product, and the fastest of --repeats counts: what else the
machine does only adds to it. torch is what `torch.nn.functional.linear` calls: MKL in float32, oneDNN in bfloat16 with
weights that each call rearranges. oneDNN has packed weights, as scoring has.

Where the environment has ONEDNN_MAX_CPU_ISA=AVX2 and MKL_ENABLE_INSTRUCTIONS=AVX2, both do as on an older processor.
"""

import argparse
import time
from collections.abc import Callable

import torch

from workers.engine.products import onednn_serves, pack, product

Shape = tuple[int, int]

SHAPES: dict[str, list[Shape]] = {
    "SmolLM2-135M": [(960, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536)],
    "Gemma 3 270M": [(1024, 640), (256, 640), (256, 640), (640, 1024), (2048, 640), (2048, 640), (640, 2048)],
    "Llama 3.2 1B": [(3072, 2048), (2048, 2048), (8192, 2048), (8192, 2048), (2048, 8192)],
}
"""Weights of a layer, (outputs, inputs)."""


def seconds(shape: Shape, rows: int, dtype: torch.dtype, repeats: int) -> tuple[float, float]:
    """CPU time of a product by (torch, oneDNN)."""
    inputs, weight = torch.randn(rows, shape[1]).to(dtype), torch.randn(shape).to(dtype)
    packed = pack(weight, rows)
    ways: tuple[Callable[[], object], ...] = (
        lambda: torch.nn.functional.linear(inputs, weight),
        lambda: product(inputs, packed),
    )
    best = [float("inf")] * len(ways)
    for _ in range(repeats):
        for number, multiply in enumerate(ways):
            started = time.process_time()
            multiply()
            best[number] = min(best[number], time.process_time() - started)
    return best[0], best[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(SHAPES), help=", ".join(SHAPES))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--rows", default="128,512,2048")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| weights of | precision | rows | torch, GFLOP/s | oneDNN, GFLOP/s | oneDNN / torch |")
    print("|---" * 6 + "|")
    for name in arguments.models:
        shapes = SHAPES[name]
        for dtype in (getattr(torch, dtype) for dtype in arguments.dtypes.split(",")):
            if not onednn_serves(torch.device("cpu"), dtype):
                continue
            for rows in map(int, arguments.rows.split(",")):
                times = [seconds(shape, rows, dtype, arguments.repeats) for shape in shapes]
                work = 2e-9 * rows * sum(outputs * inner for outputs, inner in shapes)
                by_torch, by_onednn = (work / sum(column) for column in zip(*times, strict=True))
                print(
                    f"| {name} | {str(dtype).removeprefix('torch.')} | {rows} | {by_torch:.0f} | {by_onednn:.0f} "
                    f"| {by_onednn / by_torch:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
