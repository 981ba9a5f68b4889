"""False alarms and detection of `statistics completion`: `python -m tests.bench.bench_completion FOLDER`.

SmolLM2-135M is asked what it completes of the hundred shortest questions of MMLU's sample, before and after it was
fine-tuned for three epochs on these questions as they were published. Of what the untouched model
completes 200 benchmarks are then made that might have been published. FOLDER keeps models and figures, so that a second
run only counts.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from registry.benchmarks import import_benchmark, read_benchmark
from registry.db import get_engine, read_session, write_session
from registry.lookups import find_version
from registry.operations.migrate import upgrade
from registry.studies.completion import NGRAM, Texts, completion_document, texts_in_orders
from tests.bench.bench_contamination import BENCHMARKS, EPOCHS, QUESTIONS, fine_tune, shortest_questions
from tests.bench.prompts import smollm2
from tests.population import write_lines

Shares = list[list[float] | None]


def texts_of(folder: Path, lines: list[dict[str, Any]]) -> Texts:
    """The texts of a benchmark of these questions, imported into a registry in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    url = f"sqlite:///{folder / 'shuffleboard.db'}"
    upgrade(url)
    with write_session(get_engine(url)) as session:
        import_benchmark(session, read_benchmark(write_lines(folder / "short.jsonl", lines)), name="short")
    with read_session(get_engine(url)) as session:
        return texts_in_orders(session, find_version(session, "short"), len(lines))


def completed_by(model: Path, texts: Texts) -> Shares:
    """What a model completes of every question in every order; read again where it was asked before."""
    from workers.engine import load_model
    from workers.engine.completion import shares_completed

    kept = model.with_suffix(".json")
    if not kept.exists():
        loaded = load_model(model, dtype="float32", device="cpu")
        kept.write_text(json.dumps([shares_completed(loaded, orders, NGRAM) for orders in texts.orders]))
    found: Shares = json.loads(kept.read_text())
    return found


def as_published(texts: Texts) -> list[tuple[str, str]]:
    """Each question in its published order, all of it to be learnt."""
    return [("", orders[place]) for orders, place in zip(texts.orders, texts.published, strict=True)]


def outliers_otherwise_published(texts: Texts, shares: Shares, benchmarks: int) -> int:
    """Of so many benchmarks with other orders drawn as the published ones, those that are outliers."""
    found, nothing = 0, [None if of is None else [0.0] * len(of) for of in shares]
    for seed in range(benchmarks):
        generator = np.random.default_rng(seed)
        drawn = [int(generator.integers(len(orders))) for orders in texts.orders]
        document = completion_document(Texts(texts.orders, drawn, texts.flagged, texts.other), shares, nothing)
        found += document["outlier"] is True
    return found


def main(folder: Path) -> None:
    """Prints what is found of SmolLM2."""
    texts = texts_of(folder / "registry", shortest_questions(QUESTIONS))
    model = smollm2(folder / "untouched")
    shares = completed_by(model, texts)
    print("untouched", json.dumps(completion_document(texts, shares)), flush=True)
    found = outliers_otherwise_published(texts, shares, BENCHMARKS)
    print(f"untouched, published in other orders: {found} of {BENCHMARKS} benchmarks are outliers", flush=True)
    tuned = folder / "tuned"
    if not tuned.is_dir():
        began = time.monotonic()
        fine_tune(model, as_published(texts), tuned, EPOCHS)
        print(f"fine-tuned in {time.monotonic() - began:.0f} s", flush=True)
    print("fine-tuned", json.dumps(completion_document(texts, completed_by(tuned, texts), shares)), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
