"""One way of scoring, in a separate process: `python scorer_process.py KIND MODEL_FOLDER THREADS DTYPE`.

KIND: `trie` (in the canonical mode, if there is one), `trie-fast`, `trie-torch` (the fast mode with torch's own matrix
products), `batched`, or `harness` (lm-evaluation-harness; run it with the Python of .venv-peer, it imports nothing of
ours).

stdin, a JSON line per run:  {"prompts": [["text", [" A", " B"], "question id"], ...], "batch": 8, "keep": false}, or {}
for the rate;
                             keep: the trie goes on with its cache from the run before
stdout, a JSON line:         {"logprobs", "cpu_s", "wall_s", "peak_mb", ...}, or {"gflops": {"torch": ..., "onednn":
...}}
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

# Read when the libraries are imported.
os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

Prompts = list[tuple[str, list[str], str]]
Run = Callable[[Prompts, int, bool], dict[str, Any]]


def harness(folder: Path, dtype: str) -> Run:
    """Return a scorer like lm-evaluation-harness's multiple choice: log-likelihoods, one forward pass per prompt."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    model = HFLM(pretrained=str(folder), device="cpu", dtype=dtype, batch_size=1)
    read_weights(model.model)

    def run(prompts: Prompts, batch: int, _keep: bool) -> dict[str, Any]:
        model.batch_size_per_gpu = batch
        requests = [
            Instance(request_type="loglikelihood", doc={}, arguments=(text, label), idx=index, metadata=("", 0, 1))
            for text, labels, _ in prompts
            for index, label in enumerate(labels)
        ]
        scores = iter(model.loglikelihood(requests, disable_tqdm=True))
        return {"logprobs": [[float(next(scores)[0]) for _ in labels] for _, labels, _ in prompts]}

    return run


def ours(folder: Path, kind: str, dtype: str) -> Run:
    """Return a scorer with an engine of this project."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import torch
    import transformers

    from workers.engine import ScoringPrompt, load_model, open_engine

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    if kind == "trie-torch":
        torch.backends.mkldnn.set_flags(False)
    loaded = load_model(folder, dtype=dtype, device="cpu")
    read_weights(loaded.model)
    engine: Any = None

    def run(prompts: Prompts, _batch: int, keep: bool) -> dict[str, Any]:
        nonlocal engine
        if engine is None:
            engine = open_engine(loaded, kind.split("-")[0], canonical=None if kind == "trie" else False)
        if kind != "batched" and not keep:
            engine.forget()
        scored = engine.score([ScoringPrompt(text, tuple(labels), question) for text, labels, question in prompts])
        return {
            "logprobs": scored.logprobs,
            "tokens_naive": scored.tokens_naive,
            "tokens_computed": scored.tokens_computed,
            "how": engine.settings(),
        }

    return run


def read_weights(model: Any) -> None:
    """Read a model's weights from its file, which loading only maps into memory: reading is not part of scoring."""
    for weight in model.parameters():
        weight.sum()


def matrix_product_rates(threads: int, dtype: str) -> dict[str, float]:
    """Return the best rate of a large product in GFLOP/s, by CPU time on one thread and by wall time on several."""
    import torch

    from workers.engine.products import onednn_serves, pack, product

    rows, inner, columns = 1024, 1536, 2048
    inputs, weight = (torch.randn(size, inner).to(getattr(torch, dtype)) for size in (rows, columns))
    clock = time.process_time if threads == 1 else time.perf_counter
    ways: dict[str, Callable[[], object]] = {"torch": lambda: torch.nn.functional.linear(inputs, weight)}
    if onednn_serves(inputs.device, inputs.dtype):
        packed = pack(weight, rows)
        ways["onednn"] = lambda: product(inputs, packed)
    rates = {}
    for name, multiply in ways.items():
        best = float("inf")
        for _ in range(40):
            started = clock()
            multiply()
            best = min(best, clock() - started)
        rates[name] = 2 * rows * inner * columns / best / 1e9
    return rates


@contextmanager
def peak_memory(report: dict[str, float], before_mb: float) -> Iterator[None]:
    """Set report["peak_mb"] to the highest resident memory inside the block, less `before_mb`."""
    ended = threading.Event()
    highest = [resident_mb()]

    def watch() -> None:
        while not ended.wait(0.005):
            highest[0] = max(highest[0], resident_mb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        report["peak_mb"] = highest[0] - before_mb


def resident_mb() -> float:
    """Return the resident memory of this process in MiB (Linux)."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    kind, folder, threads, dtype = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    answers = sys.stdout
    with redirect_stdout(sys.stderr):  # the libraries print, too
        import torch

        torch.set_num_threads(threads)
        run = harness(folder, dtype) if kind == "harness" else ours(folder, kind, dtype)
        before_mb = resident_mb()
        for line in sys.stdin:
            request = json.loads(line)
            answer: dict[str, Any] = {}
            if not request:
                answer["gflops"] = matrix_product_rates(threads, dtype)
            else:
                cpu, wall = time.process_time(), time.perf_counter()
                with peak_memory(answer, before_mb):
                    answer |= run(request["prompts"], request["batch"], request["keep"])
                answer |= {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall}
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
