"""Drafts a revision: `python -m migrations.draft "What it does"`.

Compares the registry's tables with a database at the newest revision and writes the difference as a new file. Views,
triggers and audiences are no part of it: `db upgrade` makes them from the code.

`python -m migrations.draft --first` rewrites the first revision, under its own name, so that it makes today's tables:
only until the first release, since a database that has the revision already does not get the additions.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, text

FOLDER = Path(__file__).parent
FIRST = """
It makes the tables of the first release. Until that is out, `python -m migrations.draft --first` writes it again after
each change of `registry/tables`; give it today's time then, so that older databases report the remedy.
"""
RELEASED = FOLDER.parent / "tests" / "releases" / "SHA256SUMS"
"""Digests and names of the files that releases have frozen."""
Rows = dict[str, list[dict[str, str | int]]]
"""Table → rows."""


def draft(message: str, now: datetime, folder: Path = FOLDER) -> Path:
    """Write `versions/<date>_<slug>.py` with the changes since the newest revision, and return it."""
    config = _config(folder)
    revision = f"{now:%Y%m%d%H%M}"
    newest = ScriptDirectory.from_config(config).get_current_head()
    if newest is not None and newest >= revision:
        raise SystemExit(f"revision {revision} would not sort after {newest}; draft it a minute later")
    return _write(config, message, now)


def first(folder: Path = FOLDER) -> Path:
    """Rewrite the one revision, with the rows that it inserts, and return it. Raises SystemExit after its release."""
    config = _config(folder)
    *_, script = ScriptDirectory.from_config(config).walk_revisions()
    name = f"migrations/versions/{Path(script.path).name}"
    if f"  {name}\n" in RELEASED.read_text(encoding="utf-8"):
        raise SystemExit(f'{name}: was released; let a revision follow it: make migration MESSAGE="Add …"')
    now = datetime.strptime(script.revision, "%Y%m%d%H%M").replace(tzinfo=UTC)
    rows = _list_inserted(config)
    before = Path(script.path).read_text(encoding="utf-8")
    Path(script.path).unlink()
    try:
        path = _write(config, "Create schema", now)
    except BaseException:
        Path(script.path).write_text(before, encoding="utf-8")
        raise
    inserts = "".join(_insert(table, found) for table, found in rows.items())
    code = path.read_text(encoding="utf-8").replace("nothing.\n", f"nothing.\n{FIRST}", 1)
    path.write_text(f"{code}{inserts}", encoding="utf-8")
    return path


def _write(config: Config, message: str, now: datetime) -> Path:
    from registry.tables import Base

    config.set_main_option("file_template", f"{now:%Y%m%d_%H%M}_{'_'.join(re.findall('[a-z0-9]+', message.lower()))}")
    with _newest_database(config) as engine, engine.begin() as connection:
        config.attributes["connection"] = connection
        config.attributes["target_metadata"] = Base.metadata
        script = command.revision(config, message=message, rev_id=f"{now:%Y%m%d%H%M}", autogenerate=True)
    assert isinstance(script, Script)
    path = Path(script.path)
    path.write_text(re.sub(r"    # ### .* ###\n", "", path.read_text(encoding="utf-8")), encoding="utf-8")
    return path


def _config(folder: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _newest_database(config: Config) -> Iterator[Engine]:
    """Yield an empty database at the newest revision."""
    with tempfile.TemporaryDirectory() as folder:
        engine = create_engine(f"sqlite:///{folder}/draft.db")
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        yield engine
        engine.dispose()


def _list_inserted(config: Config) -> Rows:
    """Return the rows that come with the tables."""
    with _newest_database(config) as engine, engine.connect() as connection:
        found = {
            table: [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]  # noqa: S608
            for table in inspect(engine).get_table_names()
            if table != "alembic_version"
        }
    return {table: rows for table, rows in found.items() if rows}


def _insert(table: str, rows: list[dict[str, str | int]]) -> str:
    columns = ", ".join(f"sa.column({name!r})" for name in rows[0])
    return f"    op.bulk_insert(sa.table({table!r}, {columns}), {rows!r})\n"


def tidy(path: Path) -> None:
    """Format a revision like all other code."""
    settings = ("--config", str(FOLDER.parent / "pyproject.toml"))
    for words in (("check", "--fix-only"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *words, "--quiet", *settings, str(path)], check=True)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m migrations.draft", description="Drafts a revision.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("message", nargs="?", help='what it does, such as "Add the colour of the cover"')
    what.add_argument("--first", action="store_true", help="write the first revision anew, with today's tables")
    arguments = parser.parse_args()
    tidy(first() if arguments.first else draft(arguments.message, datetime.now(UTC)))


if __name__ == "__main__":
    main()
