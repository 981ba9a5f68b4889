"""Columns that an archive leaves out, because the rest of it and the questions give them again bit for bit.

A value is left out where what is computed here equals it to the last bit, and stands in the file where it does not.
A column that has no value where one would be computed stays in the file as a whole. The file's metadata name the
others, under `computed`.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from math import fsum
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sqlalchemy import Connection, select
from sqlalchemy.orm import Session, selectinload

from registry.errors import ArchiveError, ShuffleboardError
from registry.metrics.npsq import npsq
from registry.metrics.probability import renormalise
from registry.metrics.rounding import binary_logarithms, exponentials
from registry.prompting.variants import stored_variants
from registry.results.archive_files import METADATA, QUESTION, SCHEMA
from registry.results.binary_copy import column, items_of, lengths_of
from registry.results.predictions import mass_of
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

Numbers = NDArray[np.float64]
KEPT: Final = 1_000_000
"""Digests that are kept, at about 100 bytes each."""

Rows = NDArray[np.int64]
"""Numbers of rows."""


class StaysError(Exception):
    """A column has no value where one would be computed, or cannot be computed; its name."""


class Built:
    """Digests of prompts that were built, kept for other evaluations that ask the same.

    Questions are never changed, nor are protocols and variant sets; a process keeps one of these for a database, and
    for as long as it moves predictions.
    """

    def __init__(self) -> None:
        self._digests: dict[tuple[int, int, int], dict[str, dict[int, bytes]]] = {}

    def digests(self, evaluation: Evaluation) -> dict[str, dict[int, bytes]]:
        """External id to digests by variant, for all evaluations that ask what this one asks; to be added to."""
        key = (evaluation.benchmark_version_id, evaluation.protocol_id, evaluation.variant_set_id)
        own = self._digests[key] = self._digests.pop(key, {})
        kept = 0
        for other, found in list(self._digests.items())[::-1]:
            kept += sum(map(len, found.values()))
            if kept > KEPT and found is not own:
                del self._digests[other]
        return own


class Asked:
    """What an evaluation asked, as far as values follow from it: right answers and digests of prompts.

    connection: one whose transaction sees the questions. built: what was built before.
    """

    def __init__(self, connection: Connection, evaluation_id: int, built: Built | None = None) -> None:
        self._connection, self.evaluation_id = connection, evaluation_id
        self._answers: dict[str, int] = {}
        self._built = built or Built()

    def answers(self, external_ids: Sequence[str]) -> dict[str, int]:
        """External id to the right option of at least these questions."""
        missing = [name for name in external_ids if name not in self._answers]
        if missing:
            query = select(Question.external_id, Question.answer).where(Question.external_id.in_(missing))
            with self._session() as session:
                self._answers |= dict(session.execute(self._of(query)).all())
        return self._answers

    def digests(self, external_ids: Sequence[str]) -> dict[str, dict[int, bytes]] | None:
        """External id to digests by variant of at least these questions; None where prompts cannot be built."""
        if self._digests is None:
            return None
        missing = [name for name in external_ids if name not in self._digests]
        if missing:
            built: dict[str, dict[int, bytes]] = {}
            query = select(Question).where(Question.external_id.in_(missing)).options(selectinload(Question.options))
            with self._session() as session:
                evaluation = session.get_one(Evaluation, self.evaluation_id)
                questions = session.scalars(self._of(query)).all()
                names = {question.id: question.external_id for question in questions}
                try:
                    for item in prompts_of(session, evaluation, list(questions)):
                        of_question = built.setdefault(names[item.question_id], {})
                        of_question[item.variant.ordinal] = bytes.fromhex(item.prompt.digest)
                except (ShuffleboardError, LookupError):
                    self._digests = None
                else:
                    self._digests |= {name: {} for name in missing} | built
        return self._digests

    @cached_property
    def _digests(self) -> dict[str, dict[int, bytes]] | None:
        with self._session() as session:
            evaluation = session.get_one(Evaluation, self.evaluation_id)
            variants = evaluation.variant_set
            makes_prompts = variants.kind != "imported" and stored_variants(variants).made_by(variants.version)
            return self._built.digests(evaluation) if makes_prompts else None

    def _session(self) -> Session:
        """A session of its own in the connection's transaction, so that nothing that it loads is kept."""
        return Session(self._connection, autoflush=False, join_transaction_mode="rollback_only")

    def _of(self, query: Any) -> Any:
        return query.join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id).where(
            EvaluationQuestion.evaluation_id == self.evaluation_id
        )


def left_out(asked: Asked, table: pa.Table, names: Collection[str]) -> pa.Table:
    """A table without the values of these columns that can be computed. Its rows are those of whole questions.

    Raises StaysError with the name of a column that cannot be left out.
    """
    rows = _Columns(asked, table, ())
    for name in names:
        stored, computed = rows.column(name), rows.computed(name)
        if pc.any(pc.and_(pc.is_null(stored), pc.is_valid(computed))).as_py():
            raise StaysError(name)
        kept = pa.array(np.arange(len(table)), pa.int64(), mask=_same(stored, computed))
        table = _with(table, name, stored.take(kept))
    return table


def completed(asked: Asked, table: pa.Table, names: Iterable[str] = COMPUTED) -> pa.Table:
    """A table of an archive with all values of these columns. Its rows are those of whole questions.

    Raises ArchiveError where prompts cannot be built any more.
    """
    computed = computed_in(table)
    rows = _Columns(asked, table, computed)
    for name in computed.intersection(names):
        table = _with(table, name, rows.column(name))
    return table


def computed_in(table: pa.Table) -> frozenset[str]:
    """The columns that a table of an archive does not hold all values of."""
    metadata = (table.schema.metadata or {}).get(METADATA.encode())
    return frozenset() if metadata is None else frozenset(json.loads(metadata).get("computed", ()))


def _with(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), values)


def _same(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Which rows have the same bits, or no value in both."""
    known, also = np.asarray(pc.is_valid(one)), np.asarray(pc.is_valid(other))
    found: NDArray[np.bool_] = known == also
    if pa.types.is_list(one.type):
        sizes, others = lengths_of(one), lengths_of(other)
        found &= sizes == others
        listed, compared = items_of(one), items_of(other)
        differ = np.zeros(len(one), bool)
        owner, also_owner = np.repeat(np.arange(len(one)), sizes), np.repeat(np.arange(len(one)), others)
        kept, kept_also = found[owner], found[also_owner]
        wrong = ~_same(listed.filter(pa.array(kept)), compared.filter(pa.array(kept_also)))
        differ[owner[kept][wrong]] = True
        found &= ~differ
        return found
    if one.type == pa.float64():
        bits = [np.asarray(pc.fill_null(values, 0.0)).view(np.int64) for values in (one, other)]
        found &= bits[0] == bits[1]
        return found
    found &= np.asarray(pc.fill_null(pc.equal(one, other), True))
    return found


_NOWHERE: Final = -1_000_000


class _Columns:
    """The columns of some rows. absent: those to be computed where the table has no value."""

    def __init__(self, asked: Asked, table: pa.Table, absent: Collection[str]) -> None:
        self._asked, self._table, self._absent = asked, table, absent
        self._known: dict[str, pa.Array] = {}
        self._computed: dict[str, pa.Array] = {}

    def column(self, name: str) -> pa.Array:
        """All values of a column."""
        if name not in self._known:
            found = column(self._table, name)
            if name in self._absent and found.null_count:
                found = _filled(found, self.computed(name))
            self._known[name] = found
        return self._known[name]

    def computed(self, name: str) -> pa.Array:
        """What a column comes to, computed from the others; NULL where that is not defined."""
        if name not in self._computed:
            # Numbers of a damaged file may be anything.
            with np.errstate(all="ignore"):
                self._computed[name] = getattr(self, f"_{name}")()
        return self._computed[name]

    def _listed(self, name: str) -> Iterator[tuple[Rows, Numbers]]:
        """The lists of each length that have one, in their rows: the rows' numbers and (rows, length)."""
        lists = self.column(name)
        sizes, items = lengths_of(lists), items_of(lists)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        whole = np.asarray(pc.is_valid(lists)) & (sizes > 0)
        # A damaged file may hold anything.
        if items.null_count:
            whole[np.repeat(np.arange(len(lists)), sizes)[np.asarray(pc.is_null(items))]] = False
        values = np.asarray(pc.fill_null(items, 0))
        for size in np.unique(sizes[whole]).tolist():
            rows = np.flatnonzero(whole & (sizes == size))
            yield rows, values[ends[rows][:, None] + np.arange(size)]

    def _numbers(self, rows: Sequence[Rows], values: Sequence[Numbers]) -> pa.Array:
        """A column of these values in these rows; NaN: none."""
        found = np.full(len(self._table), np.nan)
        for places, numbers in zip(rows, values, strict=True):
            found[places] = numbers
        return pa.array(found, mask=np.isnan(found))

    def _each(self, name: str, function: Callable[[Numbers], Numbers]) -> pa.Array:
        """A function of the lists of a column, (rows, length) to (rows,); NaN: none."""
        parts = list(self._listed(name))
        return self._numbers([rows for rows, _ in parts], [function(values) for _, values in parts])

    def _picked(self, name: str) -> Numbers:
        """The item of each list at the right option's position; NaN where there is none."""
        found = np.full(len(self._table), np.nan)
        for rows, values in self._listed(name):
            at = self._right[rows]
            inside = (at >= 0) & (at < values.shape[1])
            found[rows[inside]] = values[inside, at[inside]]
        return found

    @cached_property
    def _right(self) -> Rows:
        """The position of the right option in each row; −1: nowhere."""
        coded = column(self._table, QUESTION).dictionary_encode()
        names = coded.dictionary.to_pylist()
        known = self._asked.answers(names)
        # No option has this number, so it is at no position.
        answers = np.array([*(known.get(name, _NOWHERE) for name in names), _NOWHERE])
        answer = answers[np.asarray(coded.indices.fill_null(-1))]
        found = np.full(len(self._table), -1)
        for rows, shown in self._listed("shown"):
            hits = shown == answer[rows][:, None]
            found[rows] = np.where(hits.any(axis=1), hits.argmax(axis=1), -1)
        return found

    def _logprobs_without_question(self) -> pa.Array:
        listed = column(self._table, "label_logprobs")
        with_question = column(self._table, "question_shown").to_pylist()
        if all(with_question):
            return pa.nulls(len(listed), listed.type)
        names, orders = (column(self._table, name).to_pylist() for name in (QUESTION, "shown"))
        keys = [(name, tuple(shown or ())) for name, shown in zip(names, orders, strict=True)]
        without = {key: row for row, (key, shown) in enumerate(zip(keys, with_question, strict=True)) if not shown}
        known = pc.is_valid(listed).to_pylist()
        rows = zip(keys, with_question, known, strict=True)
        return listed.take(
            pa.array([without.get(key) if shown and own else None for key, shown, own in rows], pa.int64())
        )

    def _label_probabilities(self) -> pa.Array:
        listed: list[list[float] | None] = [None] * len(self._table)
        for rows, logprobs in self._listed("label_logprobs"):
            weights = exponentials(logprobs - logprobs.max(axis=1, keepdims=True))
            defined = ~np.isnan(weights).any(axis=1)
            for row, values in zip(rows[defined].tolist(), weights[defined].tolist(), strict=True):
                listed[row] = renormalise(values)
        return pa.array(listed, pa.list_(pa.float64()))

    def _label_mass(self) -> pa.Array:
        def mass(logprobs: Numbers) -> Numbers:
            weights = exponentials(logprobs)
            found = np.full(len(logprobs), np.nan)
            defined = ~np.isnan(weights).any(axis=1)
            found[defined] = [np.nan if one is None else one for one in _masses(weights[defined])]
            return found

        return self._each("label_logprobs", mass)

    def _entropy(self) -> pa.Array:
        def entropy(probabilities: Numbers) -> Numbers:
            positions = probabilities.shape[1]
            if positions < 2:
                return np.full(len(probabilities), np.nan)
            positive = probabilities > 0
            logs = binary_logarithms(np.where(positive, probabilities, 1.0))
            terms = np.where(positive, probabilities * logs, 0.0)
            bits = -_sums(terms)
            found = bits / binary_logarithms(np.array([float(positions)]))
            return np.where(np.isnan(found), found, np.minimum(1.0, np.where(found > 0, found, 0.0)))

        return self._each("label_probabilities", entropy)

    def _answer_probability(self) -> pa.Array:
        return self._numbers([np.arange(len(self._table))], [self._picked("label_probabilities")])

    def _brier_score(self) -> pa.Array:
        parts = list(self._listed("label_probabilities"))
        scores = []
        for rows, probabilities in parts:
            distances = (np.arange(probabilities.shape[1]) == self._right[rows][:, None]) - probabilities
            # A product, since the C library's power differs between machines in the last bit.
            found = np.minimum(2.0, _sums(distances * distances))
            scores.append(np.where(self._right[rows] < 0, np.nan, found))
        return self._numbers([rows for rows, _ in parts], scores)

    def _npsq_correct(self) -> pa.Array:
        listed = self.column("logprobs_without_question")
        if listed.null_count == len(listed):
            return pa.nulls(len(listed), pa.float64())
        one, other = self._picked("label_logprobs"), self._picked("logprobs_without_question")
        rows = np.flatnonzero(np.isfinite(one) & np.isfinite(other))
        found = [npsq(*pair) for pair in zip(one[rows].tolist(), other[rows].tolist(), strict=True)]
        return self._numbers([rows], [np.array(found, np.float64)])

    def _prompt_digest(self) -> pa.Array:
        names, variants = (column(self._table, name).to_pylist() for name in (QUESTION, "variant"))
        digests = self._asked.digests(sorted(set(names)))
        if digests is None:
            if "prompt_digest" in self._absent:
                raise ArchiveError(
                    f"evaluation {self._asked.evaluation_id} is archived, and this version of the program does not "
                    "make the prompts that its archive was written with; restore it with the version that wrote it"
                )
            raise StaysError("prompt_digest")
        return pa.array([digests[name].get(key) for name, key in zip(names, variants, strict=True)], pa.binary(32))


def _filled(values: pa.Array, others: pa.Array) -> pa.Array:
    """The others where there is no value."""
    if not len(values):
        return values
    known = np.asarray(pc.is_valid(values))
    places = np.arange(len(values)) + np.where(known, 0, len(values))
    return pa.concat_arrays([values, others]).take(pa.array(places))


def _sums(values: Numbers) -> Numbers:
    """The sum of each row, rounded once; NaN where a term is no number."""
    finite: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=1))
    return np.where(finite, [fsum(row) for row in np.where(finite[:, None], values, 0.0).tolist()], np.nan)


def _masses(weights: Numbers) -> Iterator[float | None]:
    return (mass_of(row, None) for row in weights.tolist())
