"""The executable specification of the metrics: each chapter is a file, each sentence a test.

`spec(table, expected)` checks the values of a small visible table (tests/spec/tables.py) with the Python definitions,
on SQLite and on PostgreSQL, before and after sealing. For every table it also compares all metrics of the three with
each other, per question and over every scope.
"""

import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from registry.db import make_engine
from registry.sealed.seal import seal
from tests.spec.stores import add_common_rows, database_answers, find_changed_statistics, load_kept_metrics, store
from tests.spec.tables import Answers, Case, array_answers, disagreements, python_answers, read_table, same
from tests.support import services

Values = Mapping[str, float | None]


@dataclass(frozen=True)
class Engines:
    """Databases on both engines with the schema at head, for the whole session; every change is rolled back."""

    sqlite: Engine
    postgresql: Engine

    def answers(self, tables: Sequence[Sequence[Case]]) -> list[list[Answers]]:
        """Return the values of each database by table, before sealing and, if the table is complete, after it."""
        per_table: list[list[Answers]] = [[] for _ in tables]
        for name, engine in (("sqlite", self.sqlite), ("postgresql", self.postgresql)):
            with Session(engine) as session:
                stored = [store(session, cases) for cases in tables]
                for answers_of_table, evaluation_id in zip(per_table, stored, strict=True):
                    assert find_changed_statistics(session, evaluation_id) == []
                    answers_of_table.extend(database_answers(session, evaluation_id, name))
                for answers_of_table, evaluation_id, cases in zip(per_table, stored, tables, strict=True):
                    if all(len(case.prompts) == case.expected for case in cases):
                        answers_of_table.extend(_seal_and_answer(session, evaluation_id, name))
                session.rollback()
        return per_table

    def disagreements(self, tables: Sequence[Sequence[Case]]) -> list[object]:
        """Return every value in which Python, SQLite and PostgreSQL differ, after the question in which they differ."""
        differences = self._disagreements(tables)
        if not differences:
            return []
        alone = ([case] for cases in tables for case in cases)
        smallest = next((cases for cases in alone if self._disagreements([cases])), None)
        return [smallest or tables, *differences]

    def _disagreements(self, tables: Sequence[Sequence[Case]]) -> list[str]:
        return [
            line
            for cases, computed in zip(tables, self.answers(tables), strict=True)
            for computed_elsewhere in computed
            for line in disagreements(python_answers(cases), computed_elsewhere)
        ]


def _seal_and_answer(session: Session, evaluation_id: int, engine: str) -> list[Answers]:
    assert seal(session, evaluation_id)
    assert find_changed_statistics(session, evaluation_id) == []
    answers = database_answers(session, evaluation_id, f"{engine}, sealed")
    return [*answers, Answers(f"{engine}, kept", load_kept_metrics(session, evaluation_id), answers[0].per_question)]


@pytest.fixture(scope="session")
def engines(
    postgres_server: services.PostgresServer | services.OutsidePostgres,
    postgresql_template: str,
    sqlite_template: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Engines]:
    """Yield a database on each engine for all tables, whose changes are rolled back: a database per table is slow."""
    path = tmp_path_factory.mktemp("spec") / "spec.db"
    shutil.copyfile(sqlite_template, path)
    name = f"shuffleboard_spec_{uuid.uuid4().hex}"
    services.copy_database(postgres_server.url, name, postgresql_template)
    both = Engines(make_engine(f"sqlite:///{path}"), make_engine(postgres_server.database_url(name)))
    for engine in (both.sqlite, both.postgresql):
        add_common_rows(engine)
    yield both
    for engine in (both.sqlite, both.postgresql):
        engine.dispose()
    services.postgres_execute(postgres_server.url, f"DROP DATABASE {name} WITH (FORCE)")


@dataclass(frozen=True)
class Specification:
    """The type of the fixture `spec`, which this module's docstring describes."""

    engines: Engines

    def __call__(
        self,
        table: str | Sequence[Case],
        expected: Values | None = None,
        *,
        per_question: Mapping[str, Values] | None = None,
        counts: Mapping[str, int] | None = None,
        scope: str = "all",
    ) -> None:
        """Check a table. expected: metric → value over the questions of `scope`; counts: metric → number of questions."""
        cases = read_table(table) if isinstance(table, str) else table
        reference = python_answers(cases)
        wrong = []
        if cases and all(
            case.complete and len({p.variant for p in case.prompts}) == len(case.prompts) for case in cases
        ):
            for name, value in array_answers(cases).items():
                if not same(reference.over_questions["all"][name][0], value):
                    wrong.append(f"plain arrays: {name} is {value}, not {reference.over_questions['all'][name][0]}")
        for computed in (reference, *self.engines.answers([cases])[0]):
            over = computed.over_questions.get(scope, {})
            for name, value in (expected or {}).items():
                computed_value = over[name][0] if name in over else None
                if not same(value, computed_value):
                    wrong.append(f"{computed.engine}: {name} is {computed_value}, not {value}")
            for name, n in (counts or {}).items():
                if over[name][1] != n:
                    wrong.append(f"{computed.engine}: {name} is over {over[name][1]} questions, not {n}")
            for question, values in (per_question or {}).items():
                for name, value in values.items():
                    if not same(value, computed.per_question[question][name]):
                        computed_value = computed.per_question[question][name]
                        wrong.append(f"{computed.engine}: {name} of {question} is {computed_value}, not {value}")
            wrong += disagreements(reference, computed)
        assert wrong == []


@pytest.fixture
def spec(engines: Engines) -> Specification:
    """Check a table against its expected values, on every engine."""
    return Specification(engines)
