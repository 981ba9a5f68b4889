"""Drafts a revision: `python -m migrations.draft "What it does"`.

Compares the registry's tables with a database at the newest revision, writes the difference as a new file, and beside it
the texts of views, triggers and audiences that changed, so that the revision never reads what later changes.

`python -m migrations.draft --first` writes the whole history anew as one revision that creates today's schema: for as long
as nothing was released, since a database at any other revision cannot be upgraded afterwards.
"""

import argparse
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, text

from migrations import frozen

LAST_LINE = "    frozen.create(revision)\n"
Rows = dict[str, list[dict[str, str | int]]]
"""Table → rows."""


def draft(message: str, now: datetime, rows: Rows | None = None) -> None:
    """Writes `versions/<date>_<slug>.py`, and `sql/<revision>/` where texts changed. rows: that the revision inserts."""
    from registry.tables import Base

    slug = "_".join(message.lower().split())
    revision = f"{now:%Y%m%d%H%M}"
    config = _config()
    config.set_main_option("file_template", f"{now:%Y%m%d_%H%M}_{slug}")
    newest = ScriptDirectory.from_config(config).get_current_head()
    if newest is not None and newest >= revision:
        raise SystemExit(f"revision {revision} would not sort after {newest}; draft it a minute later")
    with _newest_database(config) as engine, engine.begin() as connection:
        config.attributes["connection"] = connection
        config.attributes["target_metadata"] = Base.metadata
        script = command.revision(config, message=message, rev_id=revision, autogenerate=True)
    assert isinstance(script, Script)
    file = Path(script.path)
    code = re.sub(r"    # ### .* ###\n", "", file.read_text(encoding="utf-8"))
    inserts = "".join(_insert(table, found) for table, found in (rows or {}).items())
    file.write_text(code.replace(LAST_LINE, inserts + LAST_LINE), encoding="utf-8")
    for path, content in changed(frozen.texts(revision), today()).items():
        file = frozen.SQL / revision / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(frozen.SQL.parent))
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _newest_database(config: Config) -> Iterator[Engine]:
    """An empty database at the newest revision."""
    with tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"sqlite:///{folder}/draft.db")
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        yield engine
        engine.dispose()


def _insert(table: str, rows: list[dict[str, str | int]]) -> str:
    columns = ", ".join(f"sa.column({name!r})" for name in rows[0])
    return f"    op.bulk_insert(sa.table({table!r}, {columns}), {rows!r})\n"


def changed(before: dict[str, str], after: dict[str, str]) -> dict[str, str]:
    """The texts of `after` that `before` has not; an empty one for each that `after` has no more."""
    gone = dict.fromkeys(sorted(before.keys() - after.keys()), "")
    return {path: text for path, text in after.items() if before.get(path) != text} | gone


def today() -> dict[str, str]:
    """The texts of today's registry, as `frozen.texts` gives those of a revision."""
    from registry.schema.views import VIEWS

    texts = {"views.txt": "".join(f"{name}\n" for name in VIEWS), "audiences.toml": _audiences()}
    for name in VIEWS:
        texts |= _view(name)
    for dialect in ("sqlite", "postgresql"):
        texts |= _triggers(dialect)
    return texts


def _view(name: str) -> dict[str, str]:
    from registry.schema.views import view_sql

    selects = {dialect: f"{view_sql(name, dialect).strip()}\n" for dialect in ("sqlite", "postgresql")}
    if selects["sqlite"] == selects["postgresql"]:
        return {f"views/{name}.sql": selects["sqlite"]}
    return {f"views/{name}.{dialect}.sql": select for dialect, select in selects.items()}


def _triggers(dialect: str) -> dict[str, str]:
    from registry.schema.triggers import trigger_statements

    files: dict[str, list[str]] = {}
    for statement in trigger_statements(dialect).values():
        table = re.match(r"CREATE TRIGGER \w+ .*? ON (\w+)", statement, re.DOTALL)
        files.setdefault(table[1] if table else "functions", []).append(statement.strip())
    return {f"triggers/{dialect}/{name}.sql": "\n\n".join(found) + "\n" for name, found in files.items()}


def _audiences() -> str:
    """As TOML, of which a JSON string is one."""
    from registry.schema.audiences import SEES, postgresql_filters

    seen = [f"{audience} = {json.dumps(SEES[audience])}" for audience in SEES if audience != "all"]
    filters = [f"{table} = {json.dumps(condition)}" for table, condition in postgresql_filters().items()]
    return "\n".join(["[sees]", *seen, "", "[filters]", *filters, ""])


def inserted() -> Rows:
    """The rows that come with the newest schema."""
    from registry.tables import Base

    with _newest_database(_config()) as engine, engine.connect() as connection:
        found = {
            table.name: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table.name}")).mappings()]  # noqa: S608
            for table in Base.metadata.sorted_tables
            if inspect(engine).has_table(table.name)
        }
    return {table: rows for table, rows in found.items() if rows}


def forget() -> None:
    """Removes every revision and all frozen texts."""
    for path in (frozen.SQL.parent / "versions").glob("*.py"):
        path.unlink()
    if frozen.SQL.exists():
        shutil.rmtree(frozen.SQL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m migrations.draft", description="Drafts a revision.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("message", nargs="?", help='what it does, such as "Add the colour of the cover"')
    what.add_argument("--first", action="store_true", help="write the whole history anew as one first revision")
    arguments = parser.parse_args()
    if arguments.first:
        rows = inserted()
        forget()
        draft("Create schema", datetime.now(UTC), rows)
    else:
        draft(arguments.message, datetime.now(UTC))


if __name__ == "__main__":
    main()
