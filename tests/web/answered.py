"""A benchmark that several models answered, each question asked in one order: for what is said of its questions."""

from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Engine

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import write_session
from registry.exchange.outputs.importer import import_columns
from tests.outputs.conftest import four_options
from tests.population import write_lines

ANSWERED = "answered"


def answered(engine: Engine, folder: Path, *, questions: int, models: Sequence[str]) -> None:
    """Of `models` models the first is right on nearly all questions, each further one on fewer.

    All but the weakest two agree on D for the first question, whose key is A.
    """
    asked = four_options(questions)
    with write_session(engine) as session:
        import_benchmark(session, read_benchmark(write_lines(folder / "answered.jsonl", asked)), name=ANSWERED)
    lines = [",".join(("question_id", *models))]
    for number, question in enumerate(asked):
        right = [(7 * number + 3 * place) % len(models) >= place for place in range(len(models))]
        if number == 0:
            letters = ["D"] * (len(models) - 2) + ["A", "A"]
        else:
            letters = ["ABCD"[(question["answer"] + (not one)) % 4] for one in right]
        lines.append(",".join((question["id"], *letters)))
    table = folder / "answered.csv"
    table.write_text("\n".join(lines) + "\n", encoding="utf-8")
    import_columns(engine, table, benchmark=ANSWERED)
