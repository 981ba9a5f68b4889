"""What one corrected key costs: `python -m tests.bench.bench_errata FOLDER [--models 26]`.

The recorded answers of models to all 12,032 questions of MMLU-Pro are imported once into a registry in FOLDER; then one
question's key is corrected, which stores the metrics of every evaluation under the new errata.
"""

import argparse
import csv
import gzip
import shutil
import time
from pathlib import Path
from typing import Final

from sqlalchemy import func, select

from registry.benchmarks import import_benchmark, read_benchmark
from registry.db import get_engine, read_session, write_session
from registry.exchange.outputs import import_columns
from registry.operations.migrate import upgrade
from registry.proof.errata import Mark, mark
from registry.tables import Evaluation, Question

DATA: Final = Path(__file__).resolve().parents[1] / "data"


def registry_of(folder: Path, models: int) -> str:
    """URL of a registry with the answers of so many models."""
    url = f"sqlite:///{folder / f'models-{models}.db'}"
    if (folder / f"models-{models}.done").exists():
        return url
    folder.mkdir(parents=True, exist_ok=True)
    upgrade(url)
    questions, answers = folder / "mmlu_pro.jsonl", folder / f"answers-{models}.csv"
    with gzip.open(DATA / "mmlu_pro.jsonl.gz") as packed, questions.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    with gzip.open(DATA / "mmlu_pro_predictions.csv.gz", "rt", encoding="utf-8", newline="") as stream:
        rows = [[row[0], *row[4 : 4 + models]] for row in csv.reader(stream)]
    with answers.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    with write_session(get_engine(url)) as session:
        import_benchmark(session, read_benchmark(questions), name="mmlu-pro")
    began = time.monotonic()
    import_columns(get_engine(url), answers, benchmark="mmlu-pro")
    print(f"imported and sealed in {time.monotonic() - began:.1f} s", flush=True)
    (folder / f"models-{models}.done").touch()
    return url


def main(folder: Path, models: int) -> None:
    """Prints seconds of wall clock and of CPU."""
    engine = get_engine(registry_of(folder, models))
    with read_session(engine) as session:
        evaluations = session.scalar(select(func.count()).select_from(Evaluation).where(Evaluation.seal.is_not(None)))
        question = session.scalars(select(Question).where(~Question.few_shot).limit(1)).one()
        name, other = question.external_id, (question.answer + 1) % question.n_options
        asked = session.scalar(select(func.count()).select_from(Question).where(~Question.few_shot))
    began, cpu = time.monotonic(), time.process_time()
    with write_session(engine) as session:
        mark(session, "mmlu-pro", Mark(name, "corrected-key", "measured", other))
    print(
        f"{asked} questions, {evaluations} evaluations: a corrected key takes {time.monotonic() - began:.1f} s, "
        f"{time.process_time() - cpu:.1f} s of CPU"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=26)
    arguments = parser.parse_args()
    main(arguments.folder, arguments.models)
