"""Compares the token trie with other engines on the same prompts, in one precision: `make bench ARGS=peers`.

The other engines are lm-evaluation-harness, a real vLLM built for CPUs, a llama.cpp server, and our own plain batches
and other forms of the trie. SmolLM2-135M scores real questions of two subjects, under `cyclic` and `full`, with 0 and 5
examples. Servers are used through the project's endpoint code.

Each engine is a separate process. It is timed in a pair with the trie, right before or right after it, in turns, and
the result is the median of the pairs' ratios, so that other load on the machine cancels out. Every run begins with
empty caches. lm-evaluation-harness and the plain batches score a sample of the prompts, and their time for all of them
is extrapolated by tokens: their cost per token is the same for all orders of a question.

Options: --dtypes bfloat16,float32  --engines harness,vllm,llama (of harness, vllm, llama, batched, trie-fast,
         trie-torch)  --questions 2 (of each subject under cyclic; half as many under full)  --repeats 2  --threads 1
         --batches 4  --benchmark FILE [--fewshot FILE] --subjects sociology,professional_law (none: --subjects "")
         --model FOLDER [--gguf FILE]  --json FILE
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from bench.bench_db import cpu_seconds
from bench.figures import Work, compare
from bench.prompts import PEER, ROOT, SAMPLES, Case, Prompt, make_case, read_questions, smollm2, smollm2_gguf
from tests.servers.endpoints import endpoint
from tests.servers.vllm import VLLM, vllm_server
from tests.support.llama_server import MODEL, llama_process, write_dequantised
from workers.endpoint import EndpointEngine
from workers.engine.trie import TokenTrie, build_trie
from workers.tokens import ScoringPrompt

OURS: Final = "trie"
NAMES: Final = {
    OURS: "token trie",
    "harness": "lm-evaluation-harness",
    "vllm": "vLLM",
    "llama": "llama.cpp",
    "batched": "plain batches",
    "trie-fast": "token trie, fast mode",
    "trie-torch": "token trie, fast mode, torch's products",
}
SAMPLED: Final = ("harness", "batched")
"""Engines that score a sample of the prompts."""
INSTRUCTIONS: Final = ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
CONTEXT: Final = 4096

Ask = Callable[[Sequence[Prompt], int], dict[str, Any]]
"""Scores prompts, in batches of a size if the engine uses it; returns `logprobs`, `cpu_s` and `wall_s`."""


@dataclass
class Timed:
    """Seconds of both engines in each pair, for all prompts of a case, and the other engine's last answer."""

    ours: list[dict[str, float]] = field(default_factory=list)
    theirs: list[dict[str, float]] = field(default_factory=list)
    answer: dict[str, Any] = field(default_factory=dict)

    def ratio(self, clock: str) -> float:
        """Return the other engine's time as a multiple of the trie's: the median over the pairs."""
        return statistics.median(b[clock] / a[clock] for a, b in zip(self.ours, self.theirs, strict=True))


# Engines


@contextmanager
def in_process(kind: str, model: Path, threads: int, dtype: str) -> Iterator[Any]:
    """Yield a function that scores prompts in a separate process; without prompts it measures matrix products."""
    python = str(PEER) if kind == "harness" else sys.executable
    command = [python, str(Path(__file__).with_name("scorer_process.py")), kind, str(model), str(threads), dtype]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(prompts: Sequence[Prompt] = (), batch: int = 1, *, keep: bool = False) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            request = {"prompts": prompts, "batch": batch, "keep": keep} if prompts else {}
            print(json.dumps(request), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise SystemExit(f"{kind} ended with status {process.wait()}; run it by hand: {' '.join(command)}")
            return json.loads(answer)

        try:
            yield ask
        finally:
            process.stdin.close()


def on_server(engine: EndpointEngine, cpu: Callable[[], float], forget: Callable[[], None]) -> Ask:
    """Return a function that scores on a server.

    cpu: returns the CPU seconds of the server's processes so far. forget: empties the server's caches.
    """

    def ask(prompts: Sequence[Prompt], _batch: int) -> dict[str, Any]:
        forget()
        wanted = [ScoringPrompt(text, tuple(labels), question) for text, labels, question in prompts]
        began, wall = cpu() + time.process_time(), time.perf_counter()
        scored = engine.score(wanted)
        return {
            "logprobs": scored.logprobs,
            "tokens_computed": scored.tokens_computed,
            "cpu_s": cpu() + time.process_time() - began,
            "wall_s": time.perf_counter() - wall,
            "how": engine.settings(),
        }

    return ask


@contextmanager
def vllm(model: Path, folder: Path, threads: int, dtype: str) -> Iterator[Ask]:
    """Start vLLM, which returns exactly the requested labels."""
    with (
        vllm_server(model, MODEL, folder / "vllm.log", dtype=dtype, threads=threads) as server,
        endpoint(folder, server.url) as engine,
    ):
        yield on_server(engine, server.cpu_seconds, server.forget_prefixes)


@contextmanager
def llama(gguf: Path, folder: Path, threads: int, dtype: str) -> Iterator[Ask]:
    """Start llama.cpp, which caches only the states of the latest prompt."""
    file = folder / "model.gguf"
    write_dequantised(gguf, file, dtype)
    flags = [*(["--exact"] if dtype == "float32" else []), "--context", str(CONTEXT), "--threads", str(threads)]
    with (
        llama_process(file, *flags) as (url, pid),
        endpoint(folder, url.removesuffix("/v1"), endpoint_top_logprobs=2000, endpoint_in_flight=1) as engine,
    ):

        def forget() -> None:
            request = {"model": MODEL, "prompt": "Another text.", "max_tokens": 1}
            httpx2.post(f"{url}/completions", json=request, timeout=600).raise_for_status()

        yield on_server(engine, lambda: cpu_seconds([pid]), forget)


# Measuring


def pairs(engines: Sequence[str], repeats: int) -> Iterator[list[tuple[str, str]]]:
    """Yield the pairs of engines of each repeat in running order; which engine is first alternates."""
    turns = list(enumerate(engines))
    for repeat in range(repeats):
        yield [(OURS, kind) if (repeat + number) % 2 == 0 else (kind, OURS) for number, kind in turns]
        turns.reverse()


def measure(
    ask: dict[str, Any], cases: Sequence[Case], tries: Sequence[TokenTrie], repeats: int, batches: Sequence[int]
) -> tuple[dict[tuple[int, str], Timed], dict[int, int]]:
    """Return (timings by case and engine, batch size of lm-evaluation-harness by shots)."""
    engines = [kind for kind in ask if kind != OURS]
    batch = dict.fromkeys((case.shots for case in cases), batches[0])
    if "harness" in ask and len(batches) > 1:
        batch = {shots: best_batch(ask["harness"], cases, shots, batches) for shots in batch}
    for kind, score in ask.items():
        score([cases[0].prompts[0]], 1)  # starts the engine
        note(f"{NAMES[kind]} is ready")
    timings: dict[tuple[int, str], Timed] = {}
    for in_order in pairs(engines, repeats):
        for number, case in enumerate(cases):
            for pair in in_order:
                for kind in pair:
                    peer = next((member for member in pair if member != OURS), OURS)
                    timed = timings.setdefault((number, peer), Timed())
                    run(ask[kind], kind, case, tries[number], batch[case.shots], timed)
    return timings, batch


def run(ask: Ask, kind: str, case: Case, trie: TokenTrie, batch: int, timed: Timed) -> None:
    """Score a case once and add the seconds; those of a sample are extrapolated to all prompts by tokens."""
    sampled = kind in SAMPLED
    answer = ask([case.prompts[index] for index in case.sample] if sampled else case.prompts, batch)
    tokens = [trie.depth[node] + 1 for node in trie.last]
    scale = sum(tokens) / sum(tokens[index] for index in case.sample) if sampled else 1.0
    seconds = {clock: answer[clock] * scale for clock in ("cpu_s", "wall_s")}
    note(f"{case.label}: {NAMES[kind]}: {seconds['cpu_s']:.1f} s of CPU, {seconds['wall_s']:.1f} s by the clock")
    if kind == OURS:
        timed.ours.append(seconds)
        timed.answer[OURS] = answer
    else:
        timed.theirs.append(seconds)
        timed.answer[kind] = answer


def best_batch(ask: Ask, cases: Sequence[Case], shots: int, batches: Sequence[int]) -> int:
    """Return the batch size with which lm-evaluation-harness is fastest on some prompts with this many shots."""
    case = next(case for case in cases if case.shots == shots)
    prompts = [case.prompts[index] for index in case.sample][: max(batches)]
    seconds = {size: ask(prompts, size)["cpu_s"] for size in batches}
    note(f"lm-evaluation-harness, {shots} shots, seconds by batch size: {seconds}")
    return min(seconds, key=seconds.__getitem__)


# Reporting


@dataclass(frozen=True)
class Row:
    """The results of an engine on a case. prompts_s: per second of the clock.

    by_clock, by_cpu: multiples of the trie's time.
    share, share_with_attention: shares of the measured rate of matrix products. computed: computed tokens as a multiple
    of the trie's nodes. unknown: labels that a server did not list.
    """

    dtype: str
    case: str
    engine: str
    prompts_s: float
    by_clock: float
    by_cpu: float
    computed: float | None
    share: float | None
    share_with_attention: float | None
    largest_difference: float | None
    changed: int | None
    unknown: int
    ours_s: list[dict[str, float]]
    theirs_s: list[dict[str, float]]
    how: dict[str, Any]

    def line(self) -> str:
        """Return a line of the table."""
        share = "" if self.share is None else f"{self.share:.2f} ({self.share_with_attention:.2f})"
        ours = self.engine == NAMES[OURS]
        ratios = " | " if ours else f"{self.by_clock:.1f} | {self.by_cpu:.1f}"
        differs = "" if self.largest_difference is None else f"{self.largest_difference:.1e}"
        return (
            f"| {self.dtype} | {self.case if ours else ''} | {self.engine} | {self.prompts_s:.2f} | {ratios} "
            f"| {'' if self.computed is None else f'{self.computed:.2f}'} | {share} "
            f"| {differs} | {'' if self.changed is None else self.changed} |"
        )


HEADING: Final = (
    "| precision | prompts | engine | prompts/s | times as long as the trie, by the clock | of CPU time "
    "| tokens computed / unique | share of the rate (with attention) | largest difference in a probability "
    "| first choices changed |\n" + "|---" * 10 + "|"
)


def rows(
    dtype: str,
    cases: Sequence[Case],
    tries: Sequence[TokenTrie],
    found: dict[tuple[int, str], Timed],
    *,
    engines: Sequence[str],
    work: Work,
    rate: float,
    clock: str,
) -> Iterator[Row]:
    """Yield the results for each case: the trie first, then the other engines.

    rate: operations per second. clock: the clock of the share's seconds.
    """
    for number, (case, trie) in enumerate(zip(cases, tries, strict=True)):
        naive = sum(trie.depth[node] + 1 for node in trie.last)
        all_ours = [seconds for kind in engines for seconds in found[number, kind].ours]
        ours = found[number, engines[0]].answer[OURS]
        share, with_attention = (
            operations / min(seconds[clock] for seconds in all_ours) / rate for operations in work.of_trie(trie)
        )
        yield Row(
            dtype,
            case.label,
            NAMES[OURS],
            len(case.prompts) / statistics.median(seconds["wall_s"] for seconds in all_ours),
            1.0,
            1.0,
            ours["tokens_computed"] / len(trie),
            share,
            with_attention,
            None,
            None,
            0,
            all_ours,
            [],
            ours["how"],
        )
        for kind in engines:
            timed = found[number, kind]
            answer = timed.answer[kind]
            exact = [ours["logprobs"][index] for index in case.sample] if kind in SAMPLED else ours["logprobs"]
            comparable = [
                (theirs, own)
                for theirs, own in zip(answer["logprobs"], exact, strict=True)
                if all(value is not None for value in theirs)
            ]
            largest, changed = compare(*map(list, zip(*comparable, strict=True))) if comparable else (None, None)
            computed = naive if kind in SAMPLED else answer.get("tokens_computed")
            yield Row(
                dtype,
                case.label,
                NAMES[kind],
                len(case.prompts) / statistics.median(seconds["wall_s"] for seconds in timed.theirs),
                timed.ratio("wall_s"),
                timed.ratio("cpu_s"),
                None if computed is None else computed / len(trie),
                None,
                None,
                largest,
                changed,
                sum(value is None for values in answer["logprobs"] for value in values),
                timed.ours,
                timed.theirs,
                answer.get("how", {}),
            )


def machine() -> dict[str, Any]:
    """Describe the processor, its features, and its load (Linux)."""
    properties = dict(
        (part.strip() for part in line.split(":", 1))
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0].splitlines()
        if ":" in line
    )
    flags = properties.get("flags", "").split()
    return {
        "processor": properties.get("model name", platform.machine()),
        "instructions": [name for name in INSTRUCTIONS if name in flags],
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def note(text: str) -> None:
    """Print progress to standard error; the table goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def make_cases(given: argparse.Namespace) -> list[Case]:
    """Return the cases of each subject: 0 and 5 shots, `cyclic` and `full`."""
    cases = []
    for subject in given.subjects.split(","):
        questions, pool = read_questions(given.benchmark, given.fewshot, subject or None)
        if not questions:
            raise SystemExit(f"--subjects {subject}: {given.benchmark} has no questions on it")
        few = max(1, given.questions // 2)
        name = subject.replace("_", " ") or given.benchmark.name.partition(".")[0]
        for shots in (0, 5):
            cases.append(make_case(name, questions[: given.questions], pool, shots, "cyclic"))
            cases.append(make_case(name, questions[:few], pool, shots, "full"))
    return cases


def measure_in(
    dtype: str, cases: Sequence[Case], given: argparse.Namespace, model: Path, folder: Path
) -> tuple[list[Row], dict[str, Any]]:
    """Return (rows, circumstances) for one precision."""
    from transformers import AutoConfig, AutoTokenizer

    work, tokenizer = Work(AutoConfig.from_pretrained(model)), AutoTokenizer.from_pretrained(model)
    tries = [build_trie([tokenizer(text)["input_ids"] for text, _, _ in case.prompts]) for case in cases]
    engines = given.engines.split(",")
    with ExitStack() as stack:
        ask: dict[str, Any] = {}
        for kind in (OURS, *engines):
            if kind == "vllm":
                opened: Any = vllm(model, folder, given.threads, dtype)
            elif kind == "llama":
                opened = llama(given.gguf or smollm2_gguf(), folder, given.threads, dtype)
            else:
                opened = in_process(kind, model, given.threads, dtype)
            ask[kind] = stack.enter_context(opened)
        rates = ask[OURS]()["gflops"]
        timings, batch = measure(ask, cases, tries, given.repeats, given.batches)
        rates = {name: max(rates[name], rate) for name, rate in ask[OURS]()["gflops"].items()}
    clock = "cpu_s" if given.threads == 1 else "wall_s"
    rate = 1e9 * max(rates.values())
    listed = list(rows(dtype, cases, tries, timings, engines=engines, work=work, rate=rate, clock=clock))
    return listed, {"dtype": dtype, "gflops": rates, "batch": batch, "threads": given.threads}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dtypes", default="bfloat16,float32")
    parser.add_argument("--engines", default="harness,vllm,llama", help=f"of {', '.join(NAMES)} but the first")
    parser.add_argument("--questions", type=int, default=2, help="of a subject under cyclic; half as many under full")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", default="4", help="of lm-evaluation-harness; of several the fastest is taken")
    parser.add_argument("--benchmark", type=Path, default=SAMPLES / "mmlu.jsonl")
    parser.add_argument("--fewshot", type=Path)
    parser.add_argument("--subjects", default="sociology,high_school_us_history")
    parser.add_argument("--model", type=Path, help="folder of safetensors; default: SmolLM2, converted once")
    parser.add_argument("--gguf", type=Path, help="the same model for llama.cpp")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    options = parser.parse_args(arguments)
    options.batches = [int(size) for size in options.batches.split(",")]
    engines = options.engines.split(",")
    if not set(engines) <= set(NAMES) - {OURS}:
        raise SystemExit(f"--engines {options.engines}: name some of {', '.join(list(NAMES)[1:])}")
    for kind, needed, target in (("harness", PEER, "peer"), ("vllm", VLLM, "test-servers")):
        if kind in engines and not needed.exists():
            raise SystemExit(f"{needed} is missing; run `make {target}`, or leave {kind} out with --engines")
    about = machine()
    cases = make_cases(options)
    model = options.model or smollm2(ROOT / "build" / "bench" / "smollm2")
    clock = "CPU time of one thread" if options.threads == 1 else f"wall time, {options.threads} threads"
    print(
        f"{about['processor']}, {about['cores']} cores, {', '.join(about['instructions']) or 'no AVX2'}; load "
        f"{about['load']:.1f}; shares are of {clock}, ratios the median of {options.repeats} pairs.\n"
    )
    listed: list[Row] = []
    runs: list[dict[str, Any]] = []
    for dtype in options.dtypes.split(","):
        with tempfile.TemporaryDirectory(prefix="peers-") as name:
            new_rows, run_ = measure_in(dtype, cases, options, model, Path(name))
        listed += new_rows
        runs.append(run_)
        measured = ", ".join(f"{value:.0f} GFLOP/s by {multiplier}" for multiplier, value in run_["gflops"].items())
        print(f"{dtype}: matrix products {measured}.")
        if options.json is not None:
            document = {"machine": about, "runs": runs, "rows": [asdict(row) for row in listed]}
            options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")
    print(f"\n{HEADING}")
    for row in listed:
        print(row.line())


if __name__ == "__main__":
    main()
