"""Columns that an archive leaves out, because the rest of it and the questions give them again bit for bit.

A value is left out where what is computed here equals it to the last bit, and stands in the file where it does not.
A column that has no value where one would be computed stays in the file as a whole. The file's metadata name the
others, under `computed`.
"""

import json
import struct
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import Connection, select
from sqlalchemy.orm import Session, selectinload

from registry.errors import ArchiveError, ShuffleboardError
from registry.metrics.npsq import npsq
from registry.metrics.probability import brier, normalised_entropy
from registry.metrics.rounding import binary_logarithms, exponentials
from registry.prompting.variants import stored_variants
from registry.results.archive_files import METADATA, QUESTION, SCHEMA
from registry.results.predictions import mass_of, probabilities_of
from registry.results.prompts import prompts_of
from registry.tables import Evaluation, EvaluationQuestion, Question

COMPUTED: Final = (
    "logprobs_without_question",
    "label_probabilities",
    "label_mass",
    "entropy",
    "answer_probability",
    "brier_score",
    "npsq_correct",
    "prompt_digest",
)

Column = Callable[[str], list[Any]]
"""The values of a column, by its name: all of them, whether the file holds them or not."""


class StaysError(Exception):
    """A column has no value where one would be computed; its name."""


def left_out(connection: Connection, evaluation_id: int, table: pa.Table, names: Collection[str]) -> pa.Table:
    """A table without the values of these columns that can be computed. Its rows are those of whole questions.

    Raises StaysError with the name of a column that cannot be left out.
    """
    rows = _Rows(connection, evaluation_id, table, ())
    for name in names:
        stored = rows.column(name)
        kept = [None if _same(*pair) else pair[0] for pair in zip(stored, rows.computed(name), strict=True)]
        if any(one is None and other is not None for one, other in zip(stored, rows.computed(name), strict=True)):
            raise StaysError(name)
        table = _with(table, name, kept)
    return table


def completed(connection: Connection, evaluation_id: int, table: pa.Table, names: Iterable[str] = COMPUTED) -> pa.Table:
    """A table of an archive with all values of these columns. Its rows are those of whole questions.

    Raises ArchiveError where prompts cannot be built any more.
    """
    computed = computed_in(table)
    rows = _Rows(connection, evaluation_id, table, computed)
    for name in computed.intersection(names):
        table = _with(table, name, rows.column(name))
    return table


def computed_in(table: pa.Table) -> frozenset[str]:
    """The columns that a table of an archive does not hold all values of."""
    metadata = (table.schema.metadata or {}).get(METADATA.encode())
    return frozenset() if metadata is None else frozenset(json.loads(metadata).get("computed", ()))


def _with(table: pa.Table, name: str, values: Sequence[Any]) -> pa.Table:
    field = SCHEMA.field(name)
    return table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


class _Rows:
    """The columns of some rows. absent: those to be computed where the table has no value."""

    def __init__(self, connection: Connection, evaluation_id: int, table: pa.Table, absent: Collection[str]) -> None:
        self._connection, self._evaluation_id = connection, evaluation_id
        self._table, self._absent = table, absent
        self._known: dict[str, list[Any]] = {}
        self._computed: dict[str, list[Any]] = {}

    def column(self, name: str) -> list[Any]:
        """All values of a column."""
        if name not in self._known:
            found = self._table.column(name).to_pylist()
            if name in self._absent and None in found:
                computed = self.computed(name)
                found = [other if one is None else one for one, other in zip(found, computed, strict=True)]
            self._known[name] = found
        return self._known[name]

    def computed(self, name: str) -> list[Any]:
        """What a column comes to, computed from the others; None where that is not defined."""
        if name not in self._computed:
            self._computed[name] = getattr(self, f"_{name}")()
        return self._computed[name]

    def _each(self, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
        """A function of each row in which no column is None. A damaged file may hold anything."""
        found = []
        for row in zip(*columns, strict=True):
            value = None
            if None not in row:
                try:
                    value = function(*row)
                except (ArithmeticError, LookupError, ValueError):
                    value = None
            found.append(value)
        return found

    def _logprobs_without_question(self) -> list[Any]:
        keys = [(name, tuple(shown)) for name, shown in zip(self.column(QUESTION), self.column("shown"), strict=True)]
        rows = list(zip(keys, self.column("question_shown"), self.column("label_logprobs"), strict=True))
        without = {key: values for key, question_shown, values in rows if not question_shown}
        return [without.get(key) if shown and values is not None else None for key, shown, values in rows]

    def _label_probabilities(self) -> list[Any]:
        logprobs = self.column("label_logprobs")
        exp = exponentials(value - max(row) for row in logprobs if row for value in row)
        return self._each(lambda row: probabilities_of(None, row, exp.__getitem__), logprobs)

    def _label_mass(self) -> list[Any]:
        logprobs = self.column("label_logprobs")
        exp = exponentials(value for row in logprobs if row for value in row)
        return self._each(lambda row: mass_of(None, row, exp.__getitem__), logprobs)

    def _entropy(self) -> list[Any]:
        probabilities = self.column("label_probabilities")
        values = {value for row in probabilities if row for value in row}
        log2 = binary_logarithms(values | {float(len(row)) for row in probabilities if row})
        return self._each(lambda row: normalised_entropy(row, log2.__getitem__), probabilities)

    def _answer_probability(self) -> list[Any]:
        return self._each(lambda row, right: row[right], self.column("label_probabilities"), self._right())

    def _brier_score(self) -> list[Any]:
        return self._each(brier, self.column("label_probabilities"), self._right())

    def _npsq_correct(self) -> list[Any]:
        return self._each(
            lambda one, other, right: npsq(one[right], other[right]),
            self.column("label_logprobs"),
            self.column("logprobs_without_question"),
            self._right(),
        )

    def _right(self) -> list[int | None]:
        """The position of the right option in each row."""
        asked = self._names()
        with self._session() as session:
            query = select(Question.external_id, Question.answer).where(Question.external_id.in_(asked))
            answers = dict(session.execute(_of(query, self._evaluation_id)).all())
        return self._each(lambda name, shown: shown.index(answers[name]), self.column(QUESTION), self.column("shown"))

    def _prompt_digest(self) -> list[Any]:
        with self._session() as session:
            evaluation = session.get_one(Evaluation, self._evaluation_id)
            variants = evaluation.variant_set
            made_here = variants.kind != "imported" and stored_variants(variants).made_by(variants.version)
            query = select(Question).where(Question.external_id.in_(self._names()))
            query = query.options(selectinload(Question.options))
            questions = session.scalars(_of(query, self._evaluation_id)).all() if made_here else []
            names = {question.id: question.external_id for question in questions}
            try:
                digests = {
                    (names[item.question_id], item.variant.ordinal): bytes.fromhex(item.prompt.digest)
                    for item in prompts_of(session, evaluation, list(questions))
                }
            except (ShuffleboardError, LookupError):
                made_here, digests = False, {}
        if not made_here and "prompt_digest" in self._absent:
            raise ArchiveError(
                f"evaluation {self._evaluation_id} is archived, and this version of the program does not make the "
                "prompts that its archive was written with; restore it with the version that wrote it"
            )
        return [digests.get(key) for key in zip(self.column(QUESTION), self.column("variant"), strict=True)]

    def _names(self) -> list[str]:
        return sorted(set(self.column(QUESTION)))

    def _session(self) -> Session:
        """A session of its own in the connection's transaction, so that nothing that it loads is kept."""
        return Session(self._connection, autoflush=False, join_transaction_mode="rollback_only")


def _of(query: Any, evaluation_id: int) -> Any:
    return query.join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id).where(
        EvaluationQuestion.evaluation_id == evaluation_id
    )
