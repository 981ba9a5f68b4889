"""Visibility of benchmarks: each audience has the same tables and views, without the rows that it may not see.

A benchmark version is `public`, for `members` (everyone with an account) or `hidden` (only maintainers and the command
line), since published questions leak into training data. An **audience** sees the registry through filtered copies:
every table that leads to a benchmark becomes a view of the rows it may see, and every documented view is created again
over those. A query is the same for every audience; only the targets of its names differ, so no query can forget to
filter. If a version has a moment in `public_from`, everyone sees it from then on: the filters compare it with the
database's clock whenever they are read, so nothing has to run at that moment.

PostgreSQL: four schemas that `db upgrade` makes (registry/schema/repeatable.py). `shuffleboard_public_tables` and
`shuffleboard_members_tables` contain the filtered tables with the documented views over them, and a search path puts
them before `public` for the website. `shuffleboard_public` and `shuffleboard_members` contain only the documented
views, which reader roles are granted. Those are security barriers: a query's condition is evaluated on a row only after
the filter, or an error in it (such as a division by zero if a benchmark has a certain name) would reveal hidden rows.
SQLite: TEMP views on the connection, which take precedence over tables.
"""

# Every name in these statements is one of this file's.
# ruff: noqa: S608

import os
import sqlite3
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Engine, and_, event, or_

from registry.db import database_now, forget_engine, make_engine
from registry.schema.views import VIEWS, view_sql
from registry.tables import BenchmarkVersion

Audience = Literal["public", "members", "all"]

AUDIENCES: Final[tuple[Audience, ...]] = ("public", "members", "all")
"""All audiences, from the narrowest to the widest. `all` sees the database without filters."""

SEES: Final[dict[Audience, tuple[str, ...]]] = {
    "public": ("public",),
    "members": ("public", "members"),
    "all": ("public", "members", "hidden"),
}
"""Audience → the visibilities of benchmark versions it sees, whatever the date."""

NOW: Final = {"sqlite": "(strftime('%Y-%m-%dT%H:%M:%f', 'now') || '000Z')", "postgresql": "now()"}
"""The current time in each engine's views."""

_SEEN: Final = (
    "{version}.visibility IN ({visibilities}) OR ({version}.public_from IS NOT NULL AND {version}.public_from <= {now})"
)
"""The condition under which an audience sees a benchmark version. It is never NULL, so NOT of it is safe."""

_HIDDEN_VERSIONS: Final = "SELECT version.id FROM {base}.benchmark_version AS version WHERE NOT ({seen})"
_HIDDEN_EVALUATIONS: Final = (
    "SELECT hidden.id FROM {base}.evaluation AS hidden "
    f"WHERE hidden.benchmark_version_id {{among}}({_HIDDEN_VERSIONS}{{end}}"
)
_HIDDEN_BOARDS: Final = (
    f"SELECT entry.board_id FROM {{base}}.board_entry AS entry "
    f"WHERE entry.benchmark_version_id {{among}}({_HIDDEN_VERSIONS}{{end}}"
)
# A model whose evaluations are all invisible to an audience is invisible itself, even its name.
_HIDDEN_REVISIONS: Final = (
    "SELECT asked.model_revision_id FROM {base}.evaluation AS asked "
    f"WHERE asked.id {{among}}({_HIDDEN_EVALUATIONS}{{end}} "
    "AND NOT EXISTS (SELECT 1 FROM {base}.evaluation AS seen WHERE seen.model_revision_id = asked.model_revision_id "
    f"AND seen.id {{not_among}}({_HIDDEN_EVALUATIONS}{{end}})"
)
_HIDDEN_MODELS: Final = (
    "SELECT revision.model_id FROM {base}.evaluation AS asked "
    "JOIN {base}.model_revision AS revision ON revision.id = asked.model_revision_id "
    f"WHERE asked.id {{among}}({_HIDDEN_EVALUATIONS}{{end}} "
    "AND NOT EXISTS (SELECT 1 FROM {base}.evaluation AS seen "
    "JOIN {base}.model_revision AS other ON other.id = seen.model_revision_id "
    "WHERE other.model_id = revision.model_id "
    f"AND seen.id {{not_among}}({_HIDDEN_EVALUATIONS}{{end}})"
)
_OF_EVALUATION: Final = f"evaluation_id {{not_among}}({_HIDDEN_EVALUATIONS}{{end}}"
_OF_BOARD: Final = f"board_id {{not_among}}({_HIDDEN_BOARDS}{{end}}"

_SETS: Final = {
    "sqlite": {
        "among": "IN ",
        "not_among": "NOT IN ",
        "end": ")",
    },
    # As an array, the few hidden rows are looked up once, by index, and each row is compared with them when it is read.
    # With NOT IN (SELECT) the planner expects another look-up for each row that an index finds, so it reads whole
    # tables instead: a page of the leaderboard took ten times as long.
    "postgresql": {"among": "= ANY (ARRAY", "not_among": "<> ALL (ARRAY", "end": "))"},
}
"""Each engine's test of membership in the rows of a query, `column {among}(SELECT …{end}`."""

FILTERED: Final[dict[str, str]] = {
    "benchmark": "EXISTS (SELECT 1 FROM {base}.benchmark_version AS version "
    "WHERE version.benchmark_id = benchmark.id AND ({seen}))",
    "benchmark_version": "{seen_here}",
    "question": f"benchmark_version_id {{not_among}}({_HIDDEN_VERSIONS}{{end}}",
    "question_option": "NOT EXISTS (SELECT 1 FROM {base}.question AS hidden "
    "WHERE hidden.id = question_option.question_id "
    f"AND hidden.benchmark_version_id {{among}}({_HIDDEN_VERSIONS}{{end}})",
    "evaluation": f"benchmark_version_id {{not_among}}({_HIDDEN_VERSIONS}{{end}}",
    "model": f"id {{not_among}}({_HIDDEN_MODELS}{{end}}",
    "model_revision": f"id {{not_among}}({_HIDDEN_REVISIONS}{{end}}",
    "shard": _OF_EVALUATION,
    "evaluation_question": _OF_EVALUATION,
    "prediction": _OF_EVALUATION,
    "generation": _OF_EVALUATION,
    "archive": _OF_EVALUATION,
    "question_score": _OF_EVALUATION,
    "question_pride": _OF_EVALUATION,
    "evaluation_metric": _OF_EVALUATION,
    "analysis": _OF_EVALUATION,
    "question_seal": _OF_EVALUATION,
    "evaluation_source": _OF_EVALUATION,
    "provider_call": _OF_EVALUATION,
    "withdrawal": _OF_EVALUATION,
    "board": f"id {{not_among}}({_HIDDEN_BOARDS}{{end}}",
    "board_entry": _OF_BOARD,
    "board_snapshot": _OF_BOARD,
    "board_standing": "board_snapshot_id {not_among}(SELECT snapshot.id FROM {base}.board_snapshot AS snapshot "
    f"WHERE snapshot.board_id {{among}}({_HIDDEN_BOARDS}{{end}}{{end}}",
    # A suite names benchmarks, so it is hidden if all its boards are.
    "suite": "NOT EXISTS (SELECT 1 FROM {base}.board AS board WHERE board.suite_id = suite.id) "
    "OR EXISTS (SELECT 1 FROM {base}.board AS board "
    f"WHERE board.suite_id = suite.id AND board.id {{not_among}}({_HIDDEN_BOARDS}{{end}})",
}
"""Table → the condition on the rows that an audience sees."""

OPEN: Final = frozenset(
    {
        # Digests, kinds and times: a chain with gaps could not be checked.
        "chain_link",
        "chain_signature",
        "engine_fingerprint",
        "protocol",
        "published_result",
        "subject_category",
        "variant",
        "variant_set",
        "worker",
    }
)
"""Tables that lead to no benchmark's content."""

CLOSED: Final = frozenset(
    {
        "account",
        "account_identity",
        "api_token",
        "audit_event",
        "browser_session",
        "budget",
        "draft",
        "exclusion",
        "provider_batch",
        "rate_limit",
        "registry_generation",
        "role",
        "saved_query",
        "submission",
        "submission_evaluation",
    }
)
"""Tables that no documented view reads: each of their readers checks a permission of its own."""


def visible_to(audience: Audience) -> ColumnElement[bool]:
    """Return the condition under which an audience may see a benchmark version now."""
    version = BenchmarkVersion
    opened = and_(version.public_from.is_not(None), version.public_from <= database_now())
    return or_(version.visibility.in_(SEES[audience]), opened)


def schema(audience: Audience) -> str:
    """Return the PostgreSQL schema with the documented views of an audience."""
    return f"shuffleboard_{audience}"


def search_path(audience: Audience) -> str:
    """Return the PostgreSQL search path that leads the website's queries to an audience's rows."""
    return "public" if audience == "all" else f"{schema(audience)}_tables,public"


def _filter(table: str, visibilities: str, dialect: str) -> str:
    condition = FILTERED[table]
    if dialect == "postgresql" and "{not_among}" in condition:
        # PostgreSQL assumes ten values in an unknown array: in a registry with two evaluations it would expect that a
        # thousandth of the rows is left. For an opaque expression it expects half.
        condition = f"coalesce({condition}, false)"
    seen = _SEEN.format(version="{version}", visibilities=visibilities, now=NOW[dialect])
    return condition.format(
        base="main" if dialect == "sqlite" else "public",
        seen=seen.format(version="version"),
        seen_here=seen.format(version="benchmark_version"),
        **_SETS[dialect],
    )


def _postgresql_audiences() -> tuple[Audience, ...]:
    """Return the audiences with schemas of their own: `all` reads `public`."""
    return tuple(audience for audience in AUDIENCES if audience != "all")


def postgresql_schemas() -> tuple[str, ...]:
    """Return two schemas for each audience: one with its tables and views, and one with only the views."""
    return tuple(f"{schema(audience)}{end}" for audience in _postgresql_audiences() for end in ("_tables", ""))


def postgresql_views() -> Iterator[tuple[str, str, str]]:
    """Yield (name, statement, search path) for each view of an audience: filtered tables, views, and readers' views."""
    for audience in _postgresql_audiences():
        visibilities = ", ".join(f"'{visibility}'" for visibility in SEES[audience])
        readers, path = schema(audience), search_path(audience)
        for table in FILTERED:
            name, rows = f"{readers}_tables.{table}", _filter(table, visibilities, "postgresql")
            yield name, f"CREATE VIEW {name} AS\nSELECT * FROM public.{table} AS {table} WHERE {rows}", path
        for view in VIEWS:
            name = f"{readers}_tables.{view}"
            yield name, f"CREATE VIEW {name} AS\n{view_sql(view, 'postgresql')}", path
        for view in VIEWS:
            name = f"{readers}.{view}"
            yield name, f"CREATE VIEW {name} WITH (security_barrier) AS\nSELECT * FROM {readers}_tables.{view}", path


@lru_cache(maxsize=4)
def sqlite_statements(audience: Audience) -> tuple[str, ...]:
    """Return the statements that create an audience's TEMP views on a connection to SQLite."""
    if audience == "all":
        return ()
    visibilities = ", ".join(f"'{visibility}'" for visibility in SEES[audience])
    return (
        *(
            f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} AS {table} "
            f"WHERE {_filter(table, visibilities, 'sqlite')}"
            for table in FILTERED
        ),
        *(f"CREATE TEMP VIEW {name} AS\n{view_sql(name, 'sqlite')}" for name in VIEWS),
    )


def prepare_sqlite(connection: sqlite3.Connection, audience: Audience) -> None:
    """Create the audience's TEMP views on a connection to SQLite."""
    for statement in sqlite_statements(audience):
        connection.execute(statement)


def audience_engine(engine: Engine, audience: Audience) -> Engine:
    """Return this process's engine that reads the database as an audience does, created on first use."""
    if audience == "all":
        return engine
    url = engine.url.render_as_string(hide_password=False)
    key = (url, audience, os.getpid())
    return _audience_engines.get(key) or _audience_engines.setdefault(key, _make_audience_engine(url, audience))


_audience_engines: Final[dict[tuple[str, Audience, int], Engine]] = {}
"""(URL, audience, process id) → engine: a forked process must not use its parent's connections."""


def _make_audience_engine(url: str, audience: Audience) -> Engine:
    engine = make_engine(url, search_path=search_path(audience))
    if engine.dialect.name == "sqlite":

        @event.listens_for(engine, "connect")
        def _create_views(connection: Any, _record: Any) -> None:
            prepare_sqlite(connection, audience)

    return engine.execution_options(read_only=True)


def dispose(engine: Engine) -> None:
    """Close this process's pooled connections to the engine's database, for every audience.

    The engines are forgotten too, so that a process that opens many databases in turn keeps no engines.
    """
    url = engine.url.render_as_string(hide_password=False)
    for audience in AUDIENCES:
        closed = engine if audience == "all" else _audience_engines.pop((url, audience, os.getpid()), None)
        if closed is not None:
            forget_engine(closed)
            closed.clear_compiled_cache()
