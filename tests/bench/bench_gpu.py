"""Scores prompts on a GPU as a token trie and in plain batches: `make bench-gpu`.

Needs torch, transformers and the engine, and nothing of the registry, so that it runs on a machine that is lent bare.
The prompts come as tokens, written beforehand where the registry is installed:

    python -m tests.bench.bench_gpu --write-prompts build/bench/prompts.jsonl [--questions FILE --fewshot FILE]
    python -m tests.bench.bench_gpu [--prompts build/bench/prompts.jsonl] [--parameters 1.2e9] [--dtype bfloat16]

The model is of Llama's shape with random weights: they take the time of trained ones, and both engines have the same.
Each engine runs once untimed, so that nothing is compiled in the time that counts, then takes turns; the best time of
each counts. The plain batches, of the size that is fastest, score a part of the questions, and their time for all of
them is extrapolated by tokens. The trie scores all, and begins each time with nothing kept.

Try it without a GPU: --device cpu --parameters 2e6 --dtype float32 --quick
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import torch
import transformers

from tests.bench.figures import Work, compare
from tests.bench.scorer_process import peak_memory, resident_mb
from workers.engine import LoadedModel, TokenisedPrompt, TrieEngine
from workers.engine.batched import _last_logprobs
from workers.engine.trie import build_trie, common_length

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "registry" / "benchmarks" / "samples"
PROMPTS = ROOT / "build" / "bench" / "prompts.jsonl"

BATCH_TOKENS = (4096, 16384, 65536)
"""Tokens of a plain batch, padding included, among which the fastest is taken."""

SAMPLE_QUESTIONS = 12
"""Questions that plain batches score, spread over all."""

WIDE_PROMPTS = 16
"""Prompts of a case that are scored in a wider dtype as well."""

WIDER = {"bfloat16": "float32", "float16": "float32", "float32": "float64"}

FIVE_OPTIONS = 24
"""Questions with five options: each has 120 orders."""


@dataclass(frozen=True)
class Case:
    """Prompts of a benchmark under a variant kind; sample: indexes of those that the plain batches score."""

    label: str
    prompts: list[TokenisedPrompt]
    sample: list[int]


@dataclass(frozen=True)
class Run:
    """What scoring some prompts came to.

    peak_mb: memory beside the model at its highest. first_s: seconds of the first time, with all that is compiled.
    """

    logprobs: list[list[float]]
    seconds: float
    peak_mb: float
    tokens_computed: int
    first_s: float = 0.0


# Prompts


def write_prompts(
    path: Path, tokenizer: Path, questions: Path, few_shot: Path | None, subject: str | None, five_options: Path
) -> None:
    """Writes the prompts of all cases as tokens; each line holds what differs from the line before.

    Needs the registry, whose code makes the prompts, and a tokenizer of any model.
    """
    from tests.bench.prompts import make_case, read_questions
    from workers.engine.encoding import encode_all
    from workers.tokens import ScoringPrompt, tokenise

    encoder = transformers.AutoTokenizer.from_pretrained(tokenizer)
    own, pool = read_questions(questions, few_shot, subject)
    five, five_pool = read_questions(five_options, None, None)
    name = subject or questions.stem
    cases = [make_case(name, own, pool, shots, kind) for shots in (0, 5) for kind in ("cyclic", "full")]
    cases += [make_case(five_options.stem, five[:FIVE_OPTIONS], five_pool, shots, "full") for shots in (0, 5)]
    labels = [f"{case.benchmark}, {case.shots}-shot, `{case.variants}`" for case in cases]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        print(json.dumps({"vocabulary": len(encoder), "cases": labels}), file=file)
        for number, case in enumerate(cases):
            texts = [ScoringPrompt(text, tuple(answers), question) for text, answers, question in case.prompts]
            before: list[int] = []
            for prompt in encode_all(encoder, texts, tokenise):
                shared = common_length(before, prompt.context)
                line = {"case": number, "question": prompt.group, "shared": shared}
                print(json.dumps(line | {"tokens": prompt.context[shared:], "labels": prompt.labels}), file=file)
                before = prompt.context
    note(f"{sum(len(case.prompts) for case in cases)} prompts, {path.stat().st_size / 1e6:.1f} MB: {path}")


def read_prompts(path: Path, questions: int | None) -> tuple[int, list[Case]]:
    """(size of the vocabulary, cases), of each case the first `questions` questions."""
    with path.open(encoding="utf-8") as file:
        head = json.loads(next(file))
        listed: list[list[TokenisedPrompt]] = [[] for _ in head["cases"]]
        before: list[int] = []
        for line in map(json.loads, file):
            before = before[: line["shared"]] + line["tokens"]
            listed[line["case"]].append(TokenisedPrompt(before, line["labels"], line["question"]))
    cases = []
    for label, prompts in zip(head["cases"], listed, strict=True):
        groups = list(dict.fromkeys(prompt.group for prompt in prompts))[:questions]
        kept = [prompt for prompt in prompts if prompt.group in set(groups)]
        sampled = set(groups[:: max(1, len(groups) // SAMPLE_QUESTIONS)][:SAMPLE_QUESTIONS])
        sample = [index for index, prompt in enumerate(kept) if prompt.group in sampled]
        cases.append(Case(f"{label}: {len(groups)} questions, {len(kept)} prompts", kept, sample))
    return head["vocabulary"], cases


# The model


def llama_shape(parameters: float, vocabulary: int, context: int) -> transformers.LlamaConfig:
    """A model of Llama's shape with about so many weights in its layers; those of the vocabulary come on top.

    A layer has 14.5 weights for each pair of a state's numbers: queries and output 2, keys and values a half, the rest
    12. There is about one layer for 128 numbers of a state, as in models of 1 to 8 billion parameters.
    """
    hidden = max(256, int((128 * parameters / 14.5) ** (1 / 3)) // 256 * 256)
    size = 64 if hidden < 4096 else 128
    return transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=max(1, round(parameters / (14.5 * hidden**2))),
        num_attention_heads=hidden // size,
        num_key_value_heads=hidden // size // 4,
        head_dim=size,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        # So large that what a model sees of a prompt matters more than rounding, also in bfloat16.
        initializer_range=1.8 / hidden**0.5,
        bos_token_id=None,
        eos_token_id=None,
    )


def random_llama(parameters: float, vocabulary: int, context: int, dtype: str, device: torch.device) -> LoadedModel:
    """The model with random weights, the same each time on the same device."""
    config = llama_shape(parameters, vocabulary, context)
    torch.manual_seed(0)
    with device:
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    return LoadedModel(model, SimpleNamespace(pad_token_id=0), device, dtype, None, context)


def matrix_product_rate(device: torch.device, dtype: torch.dtype) -> float:
    """The best rate of a large matrix product on random numbers, in operations per second."""
    size = 8192 if device.type == "cuda" else 1024
    one, other = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
    best = float("inf")
    for _ in range(20):
        synchronise(device)
        started = time.perf_counter()
        torch.mm(one, other)
        synchronise(device)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def synchronise(device: torch.device) -> None:
    """Waits for a GPU, which works while the program goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# Scoring


def plain_batches(loaded: LoadedModel, prompts: Sequence[TokenisedPrompt], batch_tokens: int) -> list[list[float]]:
    """Log-probabilities by the batched engine, which takes texts and is given tokens here."""
    contexts = [prompt.context for prompt in prompts]
    found: list[list[float]] = [[] for _ in prompts]
    for index, logprobs in _last_logprobs(loaded, contexts, [1] * len(contexts), batch_tokens, None):
        found[index] = logprobs[0, prompts[index].labels].tolist()
    return found


def run(loaded: LoadedModel, score: Callable[[], tuple[list[list[float]], int]]) -> Run:
    """Times a call that returns log-probabilities and the tokens that were computed."""
    taken: dict[str, float] = {}
    synchronise(loaded.device)
    with memory(loaded, taken):
        started = time.perf_counter()
        logprobs, computed = score()
        synchronise(loaded.device)
        seconds = time.perf_counter() - started
    return Run(logprobs, seconds, taken["peak_mb"], computed)


@contextmanager
def memory(loaded: LoadedModel, taken: dict[str, float]) -> Iterator[None]:
    """Sets taken["peak_mb"]: what the GPU holds at most inside the block beside the model, in MiB.

    Without a GPU, what the process grows by.
    """
    if loaded.device.type != "cuda":
        with peak_memory(taken, resident_mb()):
            yield
        return
    torch.cuda.reset_peak_memory_stats(loaded.device)
    yield
    highest = torch.cuda.max_memory_allocated(loaded.device)
    taken["peak_mb"] = (highest - loaded.model.get_memory_footprint()) / 2**20


def best_batch(loaded: LoadedModel, prompts: Sequence[TokenisedPrompt]) -> int:
    """The tokens of a plain batch with which some prompts are scored fastest; sizes that do not fit are left out."""
    seconds: dict[int, float] = {}
    for batch_tokens in BATCH_TOKENS:
        try:
            timed = [run(loaded, lambda: (plain_batches(loaded, prompts, batch_tokens), 0)) for _ in range(2)]  # noqa: B023
        except torch.OutOfMemoryError:
            break
        seconds[batch_tokens] = timed[1].seconds
    if not seconds:
        raise SystemExit(
            f"plain batches of {BATCH_TOKENS[0]} tokens do not fit beside the model; use fewer --parameters"
        )
    note(f"plain batches, seconds by tokens of a batch: {seconds}")
    return min(seconds, key=seconds.__getitem__)


def best_of(repeats: int, once: Callable[[], Run]) -> Run:
    """The fastest of some runs, after one that is not timed."""
    first, *others = (once() for _ in range(1 + repeats))
    fastest = min(others, key=lambda one: one.seconds)
    return replace(fastest, first_s=first.seconds, peak_mb=max(one.peak_mb for one in others))


def measure(loaded: LoadedModel, cases: Sequence[Case], repeats: int, budget_tokens: int | None) -> None:
    """Prints the table."""
    device, work = loaded.device, Work(loaded.model.config)
    note("first come trials of batch sizes; then both engines, each once untimed")
    rate = matrix_product_rate(device, loaded.model.dtype)
    engine = TrieEngine(loaded, budget_tokens=budget_tokens)

    def on_trie(prompts: Sequence[TokenisedPrompt]) -> Run:
        def score() -> tuple[list[list[float]], int]:
            scored = engine.score_tokens(prompts)
            return scored.logprobs, scored.tokens_computed

        engine.forget()
        return run(loaded, score)

    def in_batches(prompts: Sequence[TokenisedPrompt], batch: int) -> Run:
        tokens = sum(len(prompt.context) for prompt in prompts)
        return run(loaded, lambda: (plain_batches(loaded, prompts, batch), tokens))

    rows: list[tuple[Case, int, Run, Run]] = []
    for case in cases:
        sampled = [case.prompts[index] for index in case.sample]
        engine.forget()
        batch = best_batch(loaded, sampled[: max(8, 2 * len(sampled) // SAMPLE_QUESTIONS)])
        plain = best_of(repeats, partial(in_batches, sampled, batch))
        trie = best_of(repeats, partial(on_trie, case.prompts))
        note(
            f"{case.label}: plain batches {plain.seconds:.2f} s for {len(sampled)} prompts, trie {trie.seconds:.2f} s, "
            f"the first time {trie.first_s:.2f} s"
        )
        rows.append((case, batch, plain, trie))

    wide = widened(loaded)
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
    print(
        f"\n{work.layer_weights / 1e9:.3g} billion weights in {loaded.model.config.num_hidden_layers} layers of random "
        f"{loaded.dtype} on {where}, torch {torch.__version__}, transformers {transformers.__version__}. "
        f"Measured matrix products: {rate / 1e12:.3g} TFLOP/s. Passes of up to {engine.budget_tokens} tokens.\n"
    )
    print(
        "| prompts | engine | prompts/s | speed-up | tokens computed / unique | share of the rate (with attention) "
        "| peak MiB | difference from plain batches | first choices changed | difference from "
        f"{wide.dtype} | difference between prompts |\n" + "|---" * 11 + "|"
    )
    for case, batch, plain, trie in rows:
        report(case, batch, plain, trie, work=work, rate=rate, wide=wide)


def widened(loaded: LoadedModel) -> LoadedModel:
    """The same model with the same weights in a wider dtype; the narrow one is given up."""
    dtype = WIDER[loaded.dtype]
    return replace(loaded, model=loaded.model.to(getattr(torch, dtype)), dtype=dtype)


def report(case: Case, batch: int, plain: Run, trie: Run, *, work: Work, rate: float, wide: LoadedModel) -> None:
    """Prints the two rows of a case."""
    built = build_trie([prompt.context for prompt in case.prompts])
    lengths = [len(prompt.context) for prompt in case.prompts]
    sampled = [trie.logprobs[index] for index in case.sample]
    plain_s = plain.seconds * sum(lengths) / plain.tokens_computed
    few = range(0, len(case.sample), max(1, len(case.sample) // WIDE_PROMPTS))
    exact = plain_batches(wide, [case.prompts[case.sample[place]] for place in few], BATCH_TOKENS[0])
    # Differences mean something beside those that another prompt makes.
    spread, _ = compare(exact, [exact[0]] * len(exact))
    largest, changed = compare(sampled, plain.logprobs)

    def row(about: str, seconds: float, done: tuple[float, float], computed: int, peak_mb: float, beside: str) -> None:
        weights, with_attention = (operations / seconds / rate for operations in done)
        print(
            f"| {about} | {len(lengths) / seconds:.2f} | {plain_s / seconds:.1f} | {computed / len(built):.2f} "
            f"| {weights:.2f} ({with_attention:.2f}) | {peak_mb:.0f} | {beside} |",
            flush=True,
        )

    def off(logprobs: Sequence[Sequence[float]]) -> str:
        return f"{compare([logprobs[place] for place in few], exact)[0]:.1e}"

    about = f"{case.label} | plain batches of {batch} tokens"
    beside = f" |  | {off(plain.logprobs)} | {spread:.1e}"
    row(about, plain_s, work.of_prompts(lengths), sum(lengths), plain.peak_mb, beside)
    beside = f"{largest:.1e} | {changed} | {off(sampled)} | {spread:.1e}"
    row(" | token trie", trie.seconds, work.of_trie(built), trie.tokens_computed, trie.peak_mb, beside)


def note(text: str) -> None:
    """Progress goes to standard error; the table goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--parameters", type=float, default=1.2e9, help="weights in the layers")
    parser.add_argument("--dtype", choices=sorted(WIDER), default="bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget-tokens", type=int, help="tokens of a pass of the trie; default: the engine's")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--questions-of-each", type=int, help="questions of each case; default: all")
    parser.add_argument("--quick", action="store_true", help="one question of each case, once")
    writing = parser.add_argument_group("writing the prompts")
    writing.add_argument("--write-prompts", type=Path, metavar="FILE", help="write the prompts and end")
    writing.add_argument("--questions", type=Path, default=SAMPLES / "mmlu.jsonl")
    writing.add_argument("--fewshot", type=Path)
    writing.add_argument("--subject")
    writing.add_argument("--five-options", type=Path, default=SAMPLES / "csqa.jsonl", help="questions with their pool")
    writing.add_argument("--tokenizer", type=Path, help="a model's folder; default: SmolLM2, converted once")
    given = parser.parse_args(arguments)
    transformers.logging.set_verbosity_error()
    if given.write_prompts:
        tokenizer = given.tokenizer
        if tokenizer is None:
            from tests.bench.prompts import smollm2

            tokenizer = smollm2(ROOT / "build" / "bench" / "smollm2")
        write_prompts(given.write_prompts, tokenizer, given.questions, given.fewshot, given.subject, given.five_options)
        return
    device = torch.device(given.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SystemExit("there is no GPU here that torch can use; run this on a machine with one, or try --device cpu")
    if not given.prompts.is_file():
        raise SystemExit(f"{given.prompts} is missing; write it with --write-prompts {given.prompts}")
    vocabulary, cases = read_prompts(given.prompts, 1 if given.quick else given.questions_of_each)
    context = max(len(prompt.context) for case in cases for prompt in case.prompts)
    loaded = random_llama(given.parameters, vocabulary, context, given.dtype, device)
    measure(loaded, cases, 1 if given.quick else given.repeats, given.budget_tokens)


if __name__ == "__main__":
    main()
