"""Drafts a revision: `python -m migrations.draft "What it does"`.

Compares the registry's tables with a database at the newest revision and writes the difference as a new file. Views,
triggers and audiences are left out, since `db upgrade` creates them from the code.
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
from sqlalchemy import Engine, create_engine

FOLDER = Path(__file__).parent


def draft(message: str, now: datetime, folder: Path = FOLDER) -> Path:
    """Write `versions/<date>_<slug>.py` with the changes since the newest revision, and return it."""
    config = _config(folder)
    revision = f"{now:%Y%m%d%H%M}"
    newest = ScriptDirectory.from_config(config).get_current_head()
    if newest is not None and newest >= revision:
        raise SystemExit(f"revision {revision} would not sort after {newest}; draft it a minute later")
    return _write(config, message, now)


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


def tidy(path: Path) -> None:
    """Format a revision like all other code."""
    settings = ("--config", str(FOLDER.parent / "pyproject.toml"))
    for words in (("check", "--fix-only"), ("format",)):
        subprocess.run([sys.executable, "-m", "ruff", *words, "--quiet", *settings, str(path)], check=True)  # noqa: S603


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m migrations.draft", description="Drafts a revision.")
    parser.add_argument("message", help='what it does, such as "Add the colour of the cover"')
    tidy(draft(parser.parse_args().message, datetime.now(UTC)))


if __name__ == "__main__":
    main()
