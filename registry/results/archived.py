"""Predictions wherever they are: in their tables, or archived in a file.

Whoever reads predictions or texts of evaluations first says so by `readable`. Of those that are archived it reads the
file, and until the transaction ends the names `prediction` and `generation`, and those of the views over them, also
lead to these rows: every SELECT that mentions one of them is given common table expressions of the same names. So no
query knows where its rows are. PostgreSQL is asked to write nothing, so readers without rights and replicas serve too.

A transaction keeps at most KEPT rows: the evaluations that were named first are forgotten, to be named again.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy import Connection, Select, Table, event, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from registry.db import among
from registry.errors import ArchiveError
from registry.files.stores import Store, store_at
from registry.results import archive_files
from registry.results.archive_files import ENDING, PREDICTION_COLUMNS, QUESTION, SCHEMA, TEXT, TEXT_COLUMNS
from registry.schema.views import VIEWS, view_sql
from registry.tables import Archive, EvaluationQuestion, Generation, Prediction, Question

TABLES: Final[dict[str, Table]] = {
    "prediction": Prediction.__table__,  # type: ignore[dict-item]
    "generation": Generation.__table__,  # type: ignore[dict-item]
}
_FILE_COLUMNS: Final = {
    "prediction": {name: name for name in PREDICTION_COLUMNS},
    "generation": {"variant": "variant"} | {name: f"{TEXT}{name}" for name in TEXT_COLUMNS},
}
"""Table to its columns, each with its name in an archive."""
KEPT: Final = 2_000_000
_ROW: Final = (QUESTION, "variant", f"{TEXT}text")
"""What is read of every row: which one it is, and whether it has a text."""
_MENTIONED: Final = re.compile(r"(?:\bfrom|\bjoin|,)[\s(]+(\w+)", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")
_OPTIONS: Final = "option_probability"
_OF_ONE_PROMPT: Final = re.compile(
    rf"from {_OPTIONS}\s+where\s+{_OPTIONS}\.evaluation_id = (?P<row>\w+)\.evaluation_id"
    rf"\s+and {_OPTIONS}\.question_id = (?P=row)\.question_id\s+and {_OPTIONS}\.variant = (?P=row)\.variant\b"
)
"""The options of one prompt, asked of the view over all prompts."""
_BESIDE_EACH_OTHER: Final = frozenset({"adversarial_effects"})
"""Views that join prompts with others of the same question."""
_OF_PREDICTIONS: Final = re.compile(r"from prediction\s+cross join lateral\b")


def file_name(seal: str) -> str:
    """The name of the archive of the evaluation with this seal."""
    return f"{seal}{ENDING}"


def place_of(archive: Archive, seal: str) -> tuple[Store, str]:
    """The store and the name of an archive's file: where it was written, else where settings have archives.

    Raises ArchiveError where it is in neither.
    """
    name = file_name(seal)
    written, configured = store_at(archive.location), store_at()
    for store in (written, configured):
        if store.has(name):
            return store, name
    elsewhere = "" if configured.url == written.url else f", nor is it in {configured.url}"
    raise ArchiveError(
        f"evaluation {archive.evaluation_id} is archived, but {written.url_of(name)} is missing{elsewhere}; bring the "
        "file back, or set SHUFFLEBOARD_ARCHIVES to where it is"
    )


def place_as_archived(archive: Archive, seal: str) -> tuple[Store, str]:
    """The same, for whoever reads the file as this evaluation's: of the size that was archived.

    Whether its seal is the evaluation's, `archive_files.opened` looks.
    """
    store, name = place_of(archive, seal)
    size = store.size(name)
    if size != archive.size:
        raise ArchiveError(
            f"{store.url_of(name)}: is not the file that was archived, with {size} bytes instead of {archive.size}; "
            "bring that back from a backup"
        )
    return store, name


def overlay(session: Session, archives: Sequence[Any], question_ids: Collection[int] | None, *, alone: bool) -> None:
    """Reads what `readable` asks for. archives: rows (Archive, seal)."""
    connection = session.connection()
    over = _overlays.get(connection)
    if over is None:
        over = _overlays[connection] = _Overlay(connection)
        event.listen(connection, "before_cursor_execute", over.rewritten, retval=True)
        event.listen(connection, "after_cursor_execute", over.planned_as_before)
        event.listen(connection, "rollback_savepoint", over.begin_again)
    wanted = {archive.evaluation_id for archive, _ in archives}
    over.make_room(session, wanted, sum(archive.predictions for archive, _ in archives))
    if alone:
        over.begin_again()
    for archive, seal in archives:
        over.add(session, archive, seal, question_ids)


def reads_predictions(statement: str, dialect: str = "sqlite") -> bool:
    """Whether a SELECT mentions predictions, texts, or a view over them."""
    return bool(_behind({name.lower() for name in _MENTIONED.findall(statement)}, dialect))


@cache
def view_over_archives(name: str, dialect: str) -> str:
    """The SELECT of a view for archived rows.

    PostgreSQL gets them without an index, so a subquery for each prompt would look at every row each time. One that
    asks for the options of a prompt that is at hand is given them from that prompt's own row.
    """
    text = view_sql(name, dialect)
    if dialect != "postgresql":
        return text
    options = _OF_PREDICTIONS.sub("from", view_sql(_OPTIONS, dialect))

    def of_row(found: re.Match[str]) -> str:
        own = re.sub(r"\bprediction\.", f"{found['row']}.", options)
        return f"from (\n{own}\n) as {_OPTIONS}"

    return _OF_ONE_PROMPT.sub(of_row, text)


_overlays: Final[WeakKeyDictionary[Connection, "_Overlay"]] = WeakKeyDictionary()


def _asked(evaluation_id: int) -> Select[str, int]:
    return (
        select(Question.external_id, Question.id)
        .join(EvaluationQuestion, EvaluationQuestion.question_id == Question.id)
        .where(EvaluationQuestion.evaluation_id == evaluation_id)
    )


@dataclass
class _Part:
    """Some rows of an archive. written: SQLite has them in its tables."""

    table: pa.Table
    written: bool = False


class _Overlay:
    """The archived rows that a connection's transaction has asked for."""

    def __init__(self, connection: Connection) -> None:
        self._dialect = connection.dialect.name
        self._rows: dict[int, list[_Part]] = {}
        self._known: dict[int, set[int] | None] = {}
        self._sizes: dict[int, int] = {}
        self._files: dict[int, tuple[Store, str, set[str]]] = {}
        self._arrays: dict[tuple[str, str], str] = {}
        self._hot = "main"
        self._made = False
        self._hashing = False

    def begin_again(self, *_: Any) -> None:
        """Forgets all rows: a table that was made after a savepoint is gone when the transaction goes back to it."""
        for kept in (self._rows, self._known, self._sizes, self._files, self._arrays):
            kept.clear()
        self._made = False

    def _make_tables(self, connection: Connection) -> None:
        narrowed = connection.exec_driver_sql("SELECT 1 FROM sqlite_temp_master WHERE name = 'prediction'")
        self._hot = "temp" if narrowed.first() else "main"
        for name, table in TABLES.items():
            # One of an earlier transaction of the connection may be there.
            connection.exec_driver_sql(f"DROP TABLE IF EXISTS temp.archived_{name}")
            columns = ", ".join(f"{column.name} {column.type.compile(connection.dialect)}" for column in table.columns)
            key = "PRIMARY KEY (evaluation_id, question_id, variant)"
            connection.exec_driver_sql(f"CREATE TEMP TABLE archived_{name} ({columns}, {key}) WITHOUT ROWID")

    def make_room(self, session: Session, wanted: Collection[int], more: int) -> None:
        """Forgets the evaluations that were read first, but those that are wanted, until `more` rows fit."""
        for evaluation_id in [number for number in self._known if number not in wanted]:
            if sum(self._sizes.values()) + more <= KEPT:
                return
            self._forget(session, evaluation_id)
            self._arrays.clear()

    def add(self, session: Session, archive: Archive, seal: str, question_ids: Collection[int] | None) -> None:
        """Reads an evaluation's rows, of these questions or of all, unless they were read before."""
        evaluation_id = archive.evaluation_id
        known = self._known.get(evaluation_id, set())
        missing = None if question_ids is None else set(question_ids) - (known or set())
        if known is None or (missing is not None and not missing):
            return
        store, name = place_as_archived(archive, seal)
        query = _asked(evaluation_id)
        if missing is None:
            ids = {row.external_id: row.id for row in session.execute(query)}
            self._forget(session, evaluation_id)
            # SQLite is given whole rows; PostgreSQL the columns that a statement mentions, read when one does.
            begun = SCHEMA.names if self._dialect == "sqlite" else _ROW
            parts = list(archive_files.groups(store, name, begun))
            self._files[evaluation_id] = (store, name, set(begun))
            self._known[evaluation_id] = None
        else:
            of_these = query.where(among(Question.id, missing))
            ids = {row.external_id: row.id for row in session.execute(of_these)}
            parts = [archive_files.of_questions(store, name, ids.keys())]
            self._known[evaluation_id] = known | missing
        for part in parts:
            numbers = pa.array([ids.get(one) for one in part.column(QUESTION).to_pylist()], pa.int64())
            if numbers.null_count:
                raise ArchiveError(f"{store.url_of(name)}: has questions that evaluation {evaluation_id} does not ask")
            self._sizes[evaluation_id] = self._sizes.get(evaluation_id, 0) + len(part)
            table = part.append_column("question_id", numbers)
            table = table.append_column("evaluation_id", pa.array([evaluation_id] * len(part), pa.int64()))
            self._rows.setdefault(evaluation_id, []).append(_Part(table))
        self._arrays.clear()

    def _forget(self, session: Session, evaluation_id: int) -> None:
        for kept in (self._rows, self._known, self._sizes, self._files):
            kept.pop(evaluation_id, None)
        if self._made:
            for name in TABLES:
                session.connection().exec_driver_sql(
                    f"DELETE FROM temp.archived_{name} WHERE evaluation_id = ?",  # noqa: S608 - a table of ours
                    (evaluation_id,),
                )

    def _complete(self, connection: Connection, words: set[str]) -> None:
        """Reads the columns among these words, where that was not done, and gives the rows to SQLite."""
        named = {of_file for names in _FILE_COLUMNS.values() for name, of_file in names.items() if name in words}
        for evaluation_id, (store, name, begun) in self._files.items():
            wanted = [one for one in SCHEMA.names if one in named and one not in begun]
            if wanted:
                for part, more in zip(
                    self._rows[evaluation_id], archive_files.groups(store, name, wanted), strict=True
                ):
                    for one in wanted:
                        part.table = part.table.append_column(SCHEMA.field(one), more.column(one))
                begun.update(wanted)
        if self._dialect == "sqlite":
            if not self._made:
                self._make_tables(connection)
                self._made = True
            for part in [part for parts in self._rows.values() for part in parts if not part.written]:
                self._insert(connection, part.table)
                part.written = True

    def _insert(self, connection: Connection, table: pa.Table) -> None:
        for name, of in TABLES.items():
            rows = _rows_of(table, name)
            binds = [
                column.type.dialect_impl(connection.dialect).bind_processor(connection.dialect) for column in of.columns
            ]
            columns = [
                [None if value is None else bind(value) for value in values] if bind is not None else values
                for values, bind in zip(_values(rows, name), binds, strict=True)
            ]
            listed = list(zip(*columns, strict=True))
            if listed:
                marks = ", ".join("?" * len(of.columns))
                names = ", ".join(column.name for column in of.columns)
                statement = f"INSERT OR REPLACE INTO temp.archived_{name} ({names}) VALUES ({marks})"  # noqa: S608 - names of ours
                connection.exec_driver_sql(statement, listed)

    def rewritten(
        self, connection: Connection, _cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool
    ) -> tuple[str, Any]:
        """A statement that finds the archived rows too, where it is a SELECT of what has some."""
        start = statement.lstrip()
        kind = start[:6].upper()
        if not self._known or executemany or not (kind == "SELECT" or kind.startswith("WITH")):
            return statement, parameters
        relations = _behind({name.lower() for name in _MENTIONED.findall(statement)}, self._dialect)
        if not relations:
            return statement, parameters
        definitions: list[str] = []
        given: dict[str, str] = {}
        texts = [statement, *(view_sql(name, self._dialect) for name in relations if name not in TABLES)]
        words = {word for text in texts for word in _WORD.findall(text)}
        self._complete(connection, words)
        for name in relations:
            if name not in TABLES:
                definitions.append(f"{name} AS (\n{view_over_archives(name, self._dialect)}\n)")
            elif self._dialect == "sqlite":
                listed = ", ".join(column.name for column in TABLES[name].columns)
                definitions.append(
                    f"{name} AS NOT MATERIALIZED (SELECT {listed} FROM {self._hot}.{name} "  # noqa: S608 - ours
                    f"UNION ALL SELECT {listed} FROM temp.archived_{name})"
                )
            else:
                columns = [column.name for column in TABLES[name].columns if column.name in words] or ["variant"]
                given |= {f"archived_{name}_{column}": self._array(name, column) for column in columns}
                definitions += _from_arrays(name, columns)
        prefix = ",\n".join(definitions)
        if kind.startswith("WITH"):
            start = "," + start[4:]
        if self._dialect == "postgresql":
            prefix = re.sub(r"%(?!\(archived_\w+\)s)", "%%", prefix)
            if context is None or context.compiled is None:
                start = start if parameters else start.replace("%", "%%")
            parameters = {**(parameters or {}), **given}
            if _BESIDE_EACH_OTHER.intersection(relations):
                # It has no statistics of archived rows: taking them for a few, it would compare each with each.
                self._nested_loops(connection, "off")
                self._hashing = True
        return f"WITH {prefix}\n{start}", parameters

    def planned_as_before(self, connection: Connection, *_: Any) -> None:
        """Gives PostgreSQL's planner back what `rewritten` took from it for one statement."""
        if self._hashing:
            self._nested_loops(connection, "on")
            self._hashing = False

    @staticmethod
    def _nested_loops(connection: Connection, state: Literal["on", "off"]) -> None:
        """Whether PostgreSQL's planner may use them where it has a choice, until the transaction ends."""
        with closing(connection.connection.cursor()) as cursor:
            cursor.execute(f"SET LOCAL enable_nestloop = {state}")

    def _array(self, name: str, column: str) -> str:
        """A column of a table's rows as the text of a PostgreSQL array."""
        key = (name, column)
        if key not in self._arrays:
            parts = [_rows_of(part.table, name) for kept in self._rows.values() for part in kept]
            of_file = _FILE_COLUMNS[name].get(column, column)
            items = [_array_items(part.column(of_file)) for part in parts if len(part)]
            self._arrays[key] = "{" + ",".join(items) + "}"
        return self._arrays[key]


def _rows_of(table: pa.Table, name: str) -> pa.Table:
    """The rows of an archive that are rows of the table: a prediction without a text has none in `generation`."""
    return table if name == "prediction" else table.filter(table.column(f"{TEXT}text").is_valid())


def _array_items(values: pa.ChunkedArray) -> str:
    """The items of a PostgreSQL array, with commas between them."""
    column = values.combine_chunks()
    if pa.types.is_list(column.type):
        inner = pc.if_else(pc.is_valid(column), column, pa.scalar([], column.type))
        listed = pc.binary_join(inner.cast(pa.list_(pa.string())), ",")
        texts = pc.if_else(pc.is_valid(column), _joined('"{', listed, '}"'), None)
    elif pa.types.is_fixed_size_binary(column.type):
        digits = [None if value is None else value.hex() for value in column.to_pylist()]
        texts = _joined('"\\\\x', pa.array(digits, pa.string()), '"')
    elif pa.types.is_string(column.type):
        escaped = pc.replace_substring(pc.replace_substring(column, "\\", "\\\\"), '"', '\\"')
        texts = _joined('"', escaped, '"')
    else:
        texts = column.cast(pa.string())
    return ",".join(pc.fill_null(texts, "NULL").to_pylist())


def _joined(before: str, texts: pa.Array, after: str) -> pa.Array:
    return pc.binary_join_element_wise(before, texts, after, "")


def _values(table: pa.Table, name: str) -> Iterator[list[Any]]:
    """The values of each column of a database table, as the registry gives them."""
    for column in TABLES[name].columns:
        found = table.column(_FILE_COLUMNS[name].get(column.name, column.name))
        values = found.to_pylist()
        is_digest = found.type == pa.binary(32)
        yield [None if value is None else value.hex() for value in values] if is_digest else values


def _from_arrays(name: str, columns: Sequence[str]) -> Iterator[str]:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    types = {column: TABLES[name].columns[column].type.compile(dialect) for column in columns}
    listed = ", ".join(columns)
    # Arrays of arrays must all have one length, so each is given as a text of its own.
    given = ", ".join(
        f"CAST(%(archived_{name}_{column})s AS {'text' if '[' in types[column] else types[column]}[])"
        for column in columns
    )
    typed = ", ".join(f"CAST({column} AS {types[column]}) AS {column}" for column in columns)
    yield (
        f"archived_{name} AS MATERIALIZED (SELECT {typed} "  # noqa: S608 - columns of ours
        f"FROM unnest({given}) AS archived({listed}))"
    )
    yield f"{name} AS NOT MATERIALIZED (SELECT {listed} FROM {name} UNION ALL SELECT {listed} FROM archived_{name})"  # noqa: S608


@cache
def _reads(dialect: str) -> dict[str, frozenset[str]]:
    """Relation over predictions or texts to all such relations that it reads, itself included."""
    found = {name: frozenset({name}) for name in TABLES}
    for view in VIEWS:
        mentioned = {name.lower() for name in _MENTIONED.findall(view_sql(view, dialect))}
        behind: frozenset[str] = frozenset().union(*(found[name] for name in mentioned if name in found))
        if behind:
            found[view] = behind | {view}
    return found


def _behind(names: set[str], dialect: str) -> list[str]:
    """The relations that must be given anew for these, in an order in which each follows those that it reads."""
    reads = _reads(dialect)
    needed: frozenset[str] = frozenset().union(*(reads[name] for name in names if name in reads))
    return [name for name in (*TABLES, *VIEWS) if name in needed]
