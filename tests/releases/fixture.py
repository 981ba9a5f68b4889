"""Write the fixture of a release: `python -m tests.releases.fixture [FOLDER [MODELS]]`, by default `tests/releases/VERSION`.

The folder gets one file, `registry.tar.xz`, with

    home/       a data directory: the registry on SQLite, the folders of sealed evaluations, and the keys
    backup/     sqlite.backup and postgresql.backup of the same rows, each with its folders
    export/     an exported evaluation, and exported tables
    site/       the board `main` as a published site, without the libraries for browsers
    public.pem  the key that signed the chain
    state.json  the tokens, the number of rows of each table, the seals, and the answers of the website

It is never edited: every later version must read it (`tests/releases/test_releases.py`).

The tests read another folder of fixtures, such as one with 165 models and 502 evaluations, if
SHUFFLEBOARD_TEST_RELEASES names it.
"""

import hashlib
import json
import logging
import os
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Final

from registry import __version__
from registry.db import get_engine
from registry.exchange.exports.selection import ExportRequest
from registry.exchange.exports.writing import export
from registry.operations.backup import backup
from registry.operations.migrate import upgrade
from registry.operations.moving import move
from registry.process_log import log_to_stderr
from registry.sealed.exporting import export_evaluation
from registry.settings import Settings, get_settings
from tests.releases.population import MODELS, fill
from tests.releases.state import read_state
from tests.support import services
from web.publishing import publish

ROOT: Final = Path(__file__).resolve().parents[2]
FROZEN: Final = ROOT / "tests" / "releases"
RELEASES: Final = Path(os.environ.get("SHUFFLEBOARD_TEST_RELEASES", FROZEN))
DIGESTS: Final = "tests/releases/SHA256SUMS"
"""The list of released files in the format of `sha256sum --check`."""
CONTENTS: Final = "registry.tar.xz"
STATE: Final = "state.json"
LARGEST: Final = 2_000_000
"""Largest size of a fixture in bytes."""
EXPORTED: Final = 4
"""Id of the evaluation that is exported."""


def make(home: Path, folder: Path, models: int) -> None:
    """Fill a registry in `home`, the data directory of this process, and write everything into the folder."""
    settings = get_settings()
    assert settings.home == home
    url = settings.resolve_database_url()
    upgrade(url)
    engine = get_engine(url)
    with tempfile.TemporaryDirectory() as scratch:
        tokens = fill(engine, settings, Path(scratch), models)
    export_evaluation(engine, settings, EXPORTED, folder / "export" / "evaluation")
    export(engine, ExportRequest("parquet"), folder / "export" / "tables")
    publish(settings, "main", folder / "site")
    for vendored in [*folder.glob("site/**/vendor")]:
        shutil.rmtree(vendored)
    state = {"tokens": tokens, **read_state(settings, tokens)}
    (folder / STATE).write_text(json.dumps(state, sort_keys=True) + "\n", encoding="utf-8")
    _write_public_key(settings, folder / "public.pem")
    _back_up(url, folder / "backup")
    with closing(sqlite3.connect(home / "shuffleboard.db")) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # only the main file is kept
    shutil.copytree(home, folder / "home", ignore=shutil.ignore_patterns("*-wal", "*-shm", "sql"))


def _back_up(url: str, folder: Path) -> None:
    """Write a backup of the registry on each engine."""
    backup(url, folder / "sqlite.backup")
    with services.postgres() as server:
        name = f"release_{os.getpid()}"
        services.postgres_execute(server.url, f"CREATE DATABASE {name} TEMPLATE template0")
        moved = server.database_url(name)
        move(url, moved)
        backup(moved, folder / "postgresql.backup")
        get_engine(moved).dispose()
        services.postgres_execute(server.url, f"DROP DATABASE {name} WITH (FORCE)")


def _write_public_key(settings: Settings, path: Path) -> None:
    from web import create_app

    with create_app(settings).test_client().get("/chain/key.pem") as answer:
        path.write_bytes(answer.data)


def write(home: Path, release: Path, models: int) -> None:
    """Write the file of a fixture into a new folder. Raises SystemExit if the file is larger than LARGEST."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "registry"
        folder.mkdir()
        make(home, folder, models)
        release.mkdir(parents=True)
        # The database, its backups and the folders contain the same rows, so they are compressed together.
        with tarfile.open(release / CONTENTS, "w:xz", preset=9) as archive:
            for path in sorted(folder.iterdir()):
                archive.add(path, path.name)
    size = (release / CONTENTS).stat().st_size
    if release.parent == FROZEN and size > LARGEST:
        raise SystemExit(f"{release}: has {size:,} bytes, more than {LARGEST:,}; fill it with less")
    print(f"{release}: {size:,} bytes")


def frozen_files(root: Path) -> list[Path]:
    """Return every file in a checkout that a release freezes: revisions and fixtures."""
    return sorted([*root.glob("migrations/versions/*.py"), *root.glob(f"tests/releases/*/{CONTENTS}")])


def freeze() -> None:
    """Append the digests of new revisions and fixtures to the list of released files, which only grows."""
    listed = (ROOT / DIGESTS).read_text(encoding="utf-8")
    for path in frozen_files(ROOT):
        name = str(path.relative_to(ROOT))
        if f"  {name}\n" not in listed:
            listed += f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n"
    (ROOT / DIGESTS).write_text(listed, encoding="utf-8")


def unpack(release: Path, to: Path) -> Path:
    """Unpack the contents of a fixture into a new folder, and return it."""
    with tarfile.open(release / CONTENTS) as archive:
        archive.extractall(to, filter="data")
    return to


def main() -> None:
    release = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FROZEN / __version__
    models = int(sys.argv[2]) if len(sys.argv) > 2 else MODELS
    if release.exists():
        raise SystemExit(f"{release}: exists; a released fixture is never written again")
    with tempfile.TemporaryDirectory() as home:
        for name in [name for name in os.environ if name.startswith("SHUFFLEBOARD_") and "_TEST_" not in name]:
            del os.environ[name]
        os.environ["SHUFFLEBOARD_HOME"] = home
        log_to_stderr(logging.ERROR)
        write(Path(home), release, models)
    if release.parent == FROZEN:
        freeze()


if __name__ == "__main__":
    main()
