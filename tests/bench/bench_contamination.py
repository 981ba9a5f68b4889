"""False alarms and detection of `statistics contamination`: `python -m tests.bench.bench_contamination FOLDER`.

SmolLM2-135M answers the hundred shortest questions of MMLU's sample in all 24 orders, before and after it was fine-tuned
for minutes on these questions as they were published. Of the untouched model's answers 200 benchmarks are then made that
might have been published, twice: with any order of every question, and with six of ten keys first. FOLDER keeps models
and answers, so that a second run only counts. Without FOLDER, the tables of made-up models, of `--benchmarks` each; with
`--options FILE …`, of models that never saw these benchmark files, and of others that know a fifth of 100 questions.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import numpy as np

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.flags import refers_to_options, sorted_numeric
from registry.benchmarks.store import import_benchmark
from registry.db import get_engine, read_session, write_session
from registry.lookups import find_evaluation
from registry.operations.migrate import upgrade
from registry.predictions.prompts import prompts_of
from registry.queue.evaluations import EvaluationRequest, select_questions, submit
from registry.revisions.store import RevisionRequest, add_revision
from registry.scores.contamination import REGULAR, all_orders, contamination_document, regularities
from registry.settings import Settings
from registry.statistics.original_order import Asked
from tests.bench.prompts import smollm2
from tests.contaminated import EVEN, MOSTLY_FIRST, Liking, OnOptions, is_outlier, is_outlier_of_any_order, made_up
from tests.population import MMLU, write_lines
from workers.artifacts import inspect_files
from workers.loop import WorkerLoop
from workers.scorer import TransformersScorer

QUESTIONS: Final = 100
BENCHMARKS: Final = 200
EPOCHS: Final = 3
BATCH: Final = 4
LEARNING_RATE: Final = 2e-4
LIKINGS: Final = (
    Liking(position=1, length=0.5),
    Liking(position=3, length=2),
    Liking(position=3, length=2, place=1),
    Liking(position=3),
    Liking(length=2),
)
SEEN: Final = 0.2
ACCURACIES: Final = (0.35, 0.6, 0.9)
"""Before the memory of what was seen."""


def shortest_questions(count: int) -> list[dict[str, Any]]:
    """So many questions of MMLU's sample whose options may stand in any order, the shortest."""
    lines = [json.loads(line) for line in MMLU.read_text(encoding="utf-8").splitlines()]
    free = [
        line
        for line in lines
        if line["split"] == "test" and not refers_to_options(line["options"]) and not sorted_numeric(line["options"])
    ]
    return sorted(free, key=lambda line: len(line["question"]) + sum(map(len, line["options"])))[:count]


def ask(folder: Path, model: Path, lines: Sequence[dict[str, Any]], variants: str) -> tuple[str, int]:
    """URL of a registry in `folder` and the evaluation of the model in it, asked anew only where it is not there."""
    url = f"sqlite:///{folder / 'shuffleboard.db'}"
    if (folder / "done").exists():
        return url, 1
    folder.mkdir(parents=True, exist_ok=True)
    upgrade(url)
    engine = get_engine(url)
    request = RevisionRequest("huggingface", str(model)).checked()
    files = inspect_files(request)
    with write_session(engine) as session:
        add_revision(session, "SmolLM2", request, files=files)
        import_benchmark(session, read_benchmark(write_lines(folder / "short.jsonl", lines)), name="short")
        evaluation_id = submit(session, EvaluationRequest("SmolLM2", "short", variants))[0].id
    loop = WorkerLoop(engine, Settings(home=folder, poll_seconds=0.1), TransformersScorer(folder, "cpu"), ["cpu"])
    loop.start()
    try:
        loop.run(until_idle=True)
    finally:
        loop.stop()
    (folder / "done").touch()
    return url, evaluation_id


def published_texts(url: str, evaluation_id: int) -> list[tuple[str, str]]:
    """Of every question its prompt as published, and the continuation that answers it."""
    with read_session(get_engine(url)) as session:
        evaluation = find_evaluation(session, evaluation_id)
        questions = select_questions(session, evaluation.benchmark_version)
        return [
            (item.prompt.text, item.prompt.continuations[item.question.answer])
            for item in prompts_of(session, evaluation, questions)
            if item.variant.unchanged(len(item.question.options))
        ]


def fine_tune(model: Path, texts: Sequence[tuple[str, str]], into: Path, epochs: int) -> None:
    """Trains the model on the answers to these prompts, and writes it with its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(model)
    tuned = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    optimiser = torch.optim.AdamW(tuned.parameters(), lr=LEARNING_RATE)
    examples = []
    for prompt, answer in texts:
        tokens = tokenizer(prompt + answer, return_tensors="pt")["input_ids"]
        labels = tokens.clone()
        labels[:, : len(tokenizer(prompt)["input_ids"])] = -100  # only the answer is learnt
        examples.append((tokens, labels))
    tuned.train()
    for _ in range(epochs):
        for number, place in enumerate(torch.randperm(len(examples)).tolist(), start=1):
            tokens, labels = examples[place]
            (tuned(tokens, labels=labels).loss / BATCH).backward()
            if number % BATCH == 0 or number == len(examples):
                optimiser.step()
                optimiser.zero_grad()
    tuned.save_pretrained(into)
    tokenizer.save_pretrained(into)


def otherwise_published(
    questions: Sequence[Asked], seeds: Sequence[int], shares: Sequence[float] | None = None
) -> Iterator[list[Asked]]:
    """The same answers, as if another order of every question had been published; shares: of keys at each position."""
    for seed in seeds:
        generator = np.random.default_rng(seed)
        drawn = []
        for question in questions:
            _, positions, others = question.values.shape
            key, other = generator.choice(positions, p=shares), generator.integers(others)
            drawn.append(replace(question, key=int(key), others=int(other)))
        yield drawn


def simulated(benchmarks: int) -> None:
    """Prints the percentage of made-up benchmarks of 100 questions in which the published order is an outlier."""
    print("| orders | keys | known by heart | outliers, % | against any order, % |\n|---|---|---|---|---|")
    for others, orders in ((1, "4 rotations"), (6, "all 24")):
        for shares, keys in ((EVEN, "even"), (MOSTLY_FIRST, "six of ten first")):
            for seen in (0.0, 0.1):
                generator = np.random.default_rng(0)
                made = [made_up(generator, others=others, shares=shares, seen=seen) for _ in range(benchmarks)]
                found = 100 * np.mean([is_outlier(benchmark) for benchmark in made])
                any_order = 100 * np.mean([is_outlier_of_any_order(generator, benchmark) for benchmark in made])
                print(f"| {orders} | {keys} | {seen:.0%} | {found:.1f} | {any_order:.1f} |", flush=True)


def simulated_on(files: Sequence[Path], models: int) -> None:
    """Prints of each file whether its published order is regular, and else in how many made-up models it is an outlier.

    In percent: of models that never saw it, on up to a thousand questions, with probabilities and by the answers alone,
    over LIKINGS and ACCURACIES, and of the worst of LIKINGS; then how many of those that remember a fifth of its first
    hundred questions are found, by accuracy, and how many any test could find by the answers alone.
    """
    print("| benchmark | questions | clean | worst | answers alone | worst | remember | answers alone | at most |")
    print("|---" * 9 + "|")
    for file in files:
        free = [one for one in read_benchmark(file).questions if not one.refers_to_options and not one.sorted_numeric]
        found = regularities([(one.subject, one.options, one.answer) for one in free])
        if regular := [name for name, of in found.items() if of is not None and of.p_value <= REGULAR]:
            print(f"| {file.name} | {len(free):,} | cannot be said: {', '.join(regular)} | | | | | | |", flush=True)
            continue
        size = Counter(len(one.options) for one in free).most_common(1)[0][0]
        kept = [one for one in free if len(one.options) == size][:1000]
        made = OnOptions([one.options for one in kept], [one.answer for one in kept])
        clean = [
            [
                made.outliers(models, replace(liking, ability=made.ability(liking, accuracy)), seed)[1:]
                for accuracy in ACCURACIES
            ]
            for seed, liking in enumerate(LIKINGS)
        ]
        few = OnOptions([one.options for one in kept[:QUESTIONS]], [one.answer for one in kept[:QUESTIONS]])
        seeing = [replace(LIKINGS[0], ability=few.ability(LIKINGS[0], accuracy), seen=SEEN) for accuracy in ACCURACIES]
        memory = [(*few.outliers(models, liking)[1:], few.most_powerful(liking)) for liking in seeing]
        shares = []
        for place in (0, 1):
            by_liking = [fmean(cell[place] for cell in cells) for cells in clean]
            shares += [f"{100 * number:.2f}" for number in (fmean(by_liking), max(by_liking))]
        shares += [" / ".join(f"{100 * one[place]:.0f}" for one in memory) for place in (0, 1, 2)]
        print(f"| {file.name} | {len(kept):,} | {' | '.join(shares)} |", flush=True)


def real(folder: Path) -> None:
    """Prints what is found of SmolLM2."""
    lines, model = shortest_questions(QUESTIONS), smollm2(folder / "smollm2")
    url, evaluation_id = ask(folder / "untouched", model, lines, "full")
    if not (folder / "tuned").is_dir():
        began = time.monotonic()
        fine_tune(model, published_texts(url, evaluation_id), folder / "tuned", EPOCHS)
        print(f"fine-tuned in {time.monotonic() - began:.0f} s", flush=True)
    tuned_url, tuned_id = ask(folder / "after", folder / "tuned", lines, "full")
    for name, where, number in (("untouched", url, evaluation_id), ("fine-tuned", tuned_url, tuned_id)):
        with read_session(get_engine(where)) as session:
            print(name, json.dumps(contamination_document(session, number)), flush=True)
    with read_session(get_engine(url)) as session:
        asked = all_orders(session, find_evaluation(session, evaluation_id))
    for name, shares in (("any order", None), ("six of ten keys first", MOSTLY_FIRST)):
        found = [is_outlier(drawn) for drawn in otherwise_published(asked.questions, range(BENCHMARKS), shares)]
        print(f"untouched, published in {name}: {sum(found)} of {len(found)} benchmarks are outliers")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--benchmarks", type=int, default=2000)
    parser.add_argument("--options", type=Path, nargs="+", default=[])
    arguments = parser.parse_args()
    if arguments.options:
        simulated_on(arguments.options, arguments.benchmarks)
    elif arguments.folder is None:
        simulated(arguments.benchmarks)
    else:
        real(arguments.folder)
