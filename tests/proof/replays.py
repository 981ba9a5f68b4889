"""Registries with chosen answers, right options and texts for tests of replays."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import text

from registry.benchmarks.contract import read_benchmark
from registry.benchmarks.store import import_benchmark
from registry.db import read_session, write_session
from registry.logs.imports.importer import ImportRequest, import_outputs
from registry.sealed.replaying import ReplayRequest, replay
from tests.outputs.conftest import Registry

LETTERS = "abcd"


def lines_of(keys: Sequence[int], **more: Any) -> list[dict[str, Any]]:
    """Return questions q0, q1, … with four options and these right options."""
    return [
        {"id": f"q{number}", "subject": None, "question": f"Question {number}?", "options": list(LETTERS)}
        | {"answer": key, **more}
        for number, key in enumerate(keys)
    ]


def version(registry: Registry, name: str, lines: Sequence[Mapping[str, Any]], few_shot: Any = None) -> None:
    """Import lines as a version of benchmark b."""
    path = registry.file(f"{name}.jsonl", [dict(line) for line in lines])
    pool = None if few_shot is None else registry.file(f"{name}-pool.jsonl", few_shot)
    with write_session(registry.engine) as session:
        import_benchmark(session, read_benchmark(path, few_shot=pool), name="b", version=name)


def record(
    registry: Registry,
    outputs: Sequence[Mapping[str, Any]],
    at: str = "1",
    variants: str = "cyclic",
    model: str = "m",
    **more: Any,
) -> int:
    """Import outputs as a model's answers to a version of benchmark b."""
    file = registry.file("outputs.jsonl", [json.dumps(line) for line in outputs])
    return import_outputs(registry.engine, ImportRequest(file, model, f"b@{at}", variants, **more))


def rotations(number: int, chosen: Sequence[int | None], **more: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a question's answers in four orders.

    chosen: option by variant. more: other keys of a line, by variant.
    """
    lines = []
    for variant, option in enumerate(chosen):
        order = [(position + variant) % 4 for position in range(4)]
        position = None if option is None else order.index(option)
        line = {"question_id": f"q{number}", "variant": variant, "order": order, "position": position}
        lines.append(line | {name: values[variant] for name, values in more.items()})
    return lines


def no_match(_text: str, _options: Sequence[str]) -> int:
    """Fail the test, since labels need no matching."""
    raise AssertionError


def replayed(registry: Registry, source: int, **asked: Any) -> int:
    """Replay an evaluation by rules that may not match texts."""
    return replay(registry.engine, ReplayRequest(source, **asked), no_match)[0]


def metrics(registry: Registry, evaluation: int) -> dict[tuple[str, str], tuple[float | None, int]]:
    """Return the stored metrics of an evaluation by scope and name."""
    query = text("SELECT scope, metric, value, n FROM evaluation_metrics WHERE evaluation_id = :id")
    with read_session(registry.engine) as session:
        return {(row.scope, row.metric): (row.value, row.n) for row in session.execute(query, {"id": evaluation})}
