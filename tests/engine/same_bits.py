"""Same prompt, same bits: `python -m tests.engine.same_bits [smollm2|gemma3|FOLDER ...] [--dtype bfloat16]`.

Real prompts of a real model: questions of the samples with 0 to 5 examples in some of their orders, under `symbols`,
`hybrid` and `cloze`, the first words of others, and long texts up to the model's limit. Each is scored alone, with an
empty cache; then all of them in one trie, in random batches, and in random shards of questions in random order by
engines that keep their cache, with passes and threads of other sizes. Every number is compared with the number that the
prompt had alone, to the last bit. Some are compared with the one-prompt reference as well.

--fast does the same in the fast mode, whose bits depend on the other prompts in a batch.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import torch

from bench.prompts import ROOT, read_questions
from registry.prompting.prompts import build_prompt, few_shot_examples
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.variants import QuestionShape, parse_variants
from shuffleboard.packaged import GEMMA3, SAMPLES, SMOLLM2, PackagedModel
from tests.engine.tiny import largest_difference
from workers.engine import (
    LoadedModel,
    ScoringPrompt,
    TrieEngine,
    continuations_reference,
    load_model,
    score_reference,
)
from workers.tokens import encoder

PROTOCOLS = ("symbols", "hybrid", "cloze")
SHOTS = (0, 0, 0, 1, 2, 5)
PACKAGED = {"smollm2": SMOLLM2, "gemma3": GEMMA3}
MEMORY_BYTES = 8 << 30
"""Memory for the cached states of a text as long as the model's context."""


@dataclass(frozen=True)
class Asked:
    """A prompt, and whether to score its whole continuations or only their first tokens."""

    prompt: ScoringPrompt
    whole: bool


def question_prompts(rng: Random, count: int, *, orders: int = 4) -> list[Asked]:
    """Return questions of both samples in some orders under a protocol with some examples; a few are cut off early."""
    files = [read_questions(SAMPLES / name, None, None) for name in ("mmlu.jsonl", "csqa.jsonl")]
    kind = parse_variants("full")
    prompts: list[Asked] = []
    while len(prompts) < count:
        questions, pool = rng.choice(files)
        question, shots, name = rng.choice(questions), rng.choice(SHOTS), rng.choice(PROTOCOLS)
        examples = few_shot_examples(pool, question.subject, shots) if shots else []
        protocol = protocol_definition(name, len(examples))
        variants = kind.variants(QuestionShape(question.external_id, len(question.options), question.answer))
        for variant in rng.sample(variants, orders):
            prompt = build_prompt(protocol, question, variant, examples)
            text = prompt.text if rng.random() < 0.8 else prompt.text[: rng.randint(1, 40)]
            scored = ScoringPrompt(text, tuple(prompt.continuations), question.external_id)
            prompts.append(Asked(scored, whole=protocol["score"] != "first-token"))
    return prompts[:count]


def long_prompts(loaded: LoadedModel, lengths: Sequence[int]) -> list[Asked]:
    """Return texts of at most and about these numbers of tokens, which all have the same beginning."""
    texts = [question.prompt.text for question in question_prompts(Random(7), 600, orders=1)]
    encode = encoder(loaded.tokenizer)
    question = []
    for length in lengths:
        text = ""
        for part in texts:
            words = [*part.split(" "), "\n\n"]
            # Add one word at a time near the limit; continuations of a few tokens follow.
            nearly = len(encode(text + part)) > length - 8
            for piece in words if nearly else [" ".join(words)]:
                if len(encode(text + " " + piece)) > length - 8:
                    break
                text += " " + piece
            if nearly:
                break
        question.append(Asked(ScoringPrompt(text, (" A", " B", " C", " D"), "long"), whole=False))
    return question


@dataclass
class Comparison:
    """Numbers of repeated scores and of scores that differ in any bit, and the largest difference."""

    scored: int = 0
    other: list[int] = field(default_factory=list)
    largest: float = 0.0

    def __str__(self) -> str:
        different = f", the others by up to {self.largest:.1e}" if self.other else ""
        return f"{self.scored - len(self.other)} of {self.scored} equal to the last bit{different}"


def score(engine: TrieEngine, asked: Sequence[Asked]) -> list[list[float]]:
    """Score first tokens and whole continuations in separate calls, as a worker scores shards."""
    numbers: list[list[float]] = [[] for _ in asked]
    for is_whole in (False, True):
        places = [place for place, item in enumerate(asked) if item.whole == is_whole]
        call = engine.score_continuations if is_whole else engine.score
        for place, values in zip(places, call([asked[place].prompt for place in places]).logprobs, strict=True):
            numbers[place] = values
    return numbers


def alone(engine: TrieEngine, asked: Sequence[Asked]) -> list[list[float]]:
    """Score each prompt alone, with an empty cache."""
    numbers = []
    for item in asked:
        engine.forget()
        numbers += score(engine, [item])
    engine.forget()
    return numbers


def compare(
    engine: TrieEngine, asked: Sequence[Asked], expected: Sequence[Sequence[float]], parts: Sequence[Sequence[int]]
) -> Comparison:
    """Score the prompts of each part together, part after part, and compare the results with the expected ones."""
    comparison = Comparison()
    for part in parts:
        for place, values in zip(part, score(engine, [asked[place] for place in part]), strict=True):
            comparison.scored += 1
            if list(values) != list(expected[place]):
                comparison.other.append(place)
                comparison.largest = max(comparison.largest, largest_difference([values], [expected[place]]))
    return comparison


def batches(rng: Random, count: int) -> list[list[int]]:
    """Return all prompts in random order, in batches of random sizes."""
    order, parts = rng.sample(range(count), count), []
    while order:
        size = rng.choice((1, 2, 5, 17, 60))
        parts.append(order[:size])
        del order[:size]
    return parts


def shards(rng: Random, asked: Sequence[Asked]) -> list[list[int]]:
    """Return all questions in random order, in shards of random sizes."""
    questions: dict[Any, list[int]] = {}
    for place, item in enumerate(asked):
        questions.setdefault(item.prompt.group, []).append(place)
    groups = rng.sample(list(questions.values()), len(questions))
    size = rng.randint(2, 12)
    return [list(chain(*groups[start : start + size])) for start in range(0, len(groups), size)]


def schedules(rng: Random, asked: Sequence[Asked]) -> Iterator[tuple[str, list[list[int]], int, int]]:
    """Yield (name, parts, tokens per pass, threads)."""
    everything = [list(range(len(asked)))]
    yield "all in one trie", everything, 2048, 1
    yield "all in one trie, short passes, 2 threads", everything, 160, 2
    yield "random batches", batches(rng, len(asked)), 2048, 1
    yield "random batches, passes of 96, 3 threads", batches(rng, len(asked)), 96, 3
    yield "random shards, questions in random order", shards(rng, asked), 2048, 1
    yield "random shards again, 2 threads", shards(rng, asked), 2048, 2


def convert(packaged: PackagedModel, folder: Path) -> Path:
    """Convert a packaged model to safetensors, once; return its folder."""
    from shuffleboard.packaged import find_packaged_file
    from workers.artifacts import convert_gguf

    if not folder.is_dir():
        convert_gguf(find_packaged_file(packaged, folder.parent), folder)
    return folder


def run(folder: Path, prompts: int, seed: int, *, canonical: bool, dtype: str, longest: int) -> bool:
    """Print the comparisons; return whether all numbers were equal."""
    torch.set_num_threads(1)
    loaded = load_model(folder, dtype=dtype, device="cpu")
    limit = min(loaded.max_length or 2048, longest)
    rng = Random(seed)
    lengths = [limit, limit - 1, *(rng.randint(500, min(4000, limit)) for _ in range(4))]
    requests = question_prompts(rng, prompts - len(lengths)) + long_prompts(loaded, lengths)
    engine = TrieEngine(loaded, memory_bytes=MEMORY_BYTES, canonical=canonical)
    encode = encoder(loaded.tokenizer)
    tokens = [len(encode(item.prompt.text)) for item in requests]
    with_continuations = sum(item.whole for item in requests)
    print(
        f"\n{folder.name} in {dtype}: {len(requests)} prompts of {min(tokens)} to {max(tokens)} tokens (median {median(tokens):.0f}; "
        f"the limit is {limit}), {with_continuations} with whole continuations\n{engine.settings()}",
        flush=True,
    )
    started = time.process_time()
    expected = alone(engine, requests)
    print(f"- each alone: {time.process_time() - started:.0f} s of CPU time", flush=True)
    good = True
    for name, parts, budget, threads in schedules(rng, requests):
        started = time.process_time()
        torch.set_num_threads(threads)
        engine.budget_tokens = budget
        comparison = compare(engine, requests, expected, parts)
        torch.set_num_threads(1)
        engine.forget()
        good &= not comparison.other
        print(f"- {name}: {comparison}; {time.process_time() - started:.0f} s", flush=True)
    short = rng.sample([place for place, length in enumerate(tokens) if length < 300], 12)
    reference = [
        (continuations_reference if requests[place].whole else score_reference)(
            loaded, [requests[place].prompt]
        ).logprobs[0]
        for place in short
    ]
    difference = largest_difference([expected[place] for place in short], reference)
    print(
        f"- largest difference of a log-probability from the one-prompt reference, {len(short)} prompts: {difference:.1e}"
    )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", default=["smollm2"], help="smollm2, gemma3, or folders of safetensors")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default="float32", help="float32 or bfloat16")
    parser.add_argument(
        "--longest", type=int, default=1 << 20, help="tokens of the longest prompts, where not the model's limit"
    )
    parser.add_argument("--fast", action="store_true", help="in the fast mode, to see how many differ")
    arguments = parser.parse_args()
    results = []
    for name in arguments.models:
        folder = convert(PACKAGED[name], ROOT / "build" / "bench" / name) if name in PACKAGED else Path(name)
        results.append(
            run(
                folder,
                arguments.prompts,
                arguments.seed,
                canonical=not arguments.fast,
                dtype=arguments.dtype,
                longest=arguments.longest,
            )
        )
    if not arguments.fast and not all(results):
        raise SystemExit("some prompts had other bits")


if __name__ == "__main__":
    main()
