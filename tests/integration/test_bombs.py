"""Small files that unpack to a huge size, which are refused with name, size and limit before memory is filled."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from registry.db import get_engine
from tests.support import bombs
from tests.support.commands import ROOT, shuffleboard
from tests.support.population import table_counts

pytestmark = pytest.mark.one_engine

ALL = bombs.BENCHMARKS | bombs.LOGS


@pytest.mark.parametrize("name", ALL)
def test_a_bomb_is_refused_with_its_size_and_the_limit(database: str, tmp_path: Path, name: str) -> None:
    path = ALL[name](tmp_path, 48)
    before = table_counts(get_engine(database))
    settings = {"database_url": database, "unpacked_bytes": 8 * bombs.MIB}
    outcome = shuffleboard("benchmarks", "import", path, "--name", "bomb", status=1, **settings)
    (message,) = outcome.stderr.splitlines()
    assert message.startswith(f"Error: {path.name}"), message
    assert re.search(r"\d+ bytes", message), message
    assert "limit of" in message or "the directory states" in message, message
    assert table_counts(get_engine(database)) == before


@pytest.mark.long
def test_none_of_them_takes_a_gibibyte(tmp_path: Path) -> None:
    names = ("repeated_text", "packed_lines", "packed_table", *bombs.LOGS)
    paths = [ALL[name](tmp_path, 1280) for name in names]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.bomb_process", *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout)
    assert [path.name for path in paths] == list(report["refused"])
    assert report["peak_mib"] < 1024, report


def test_a_file_within_the_limit_is_read_as_before(database: str, tmp_path: Path) -> None:
    path = bombs.many_lines(tmp_path, 1)
    outcome = shuffleboard("benchmarks", "import", path, "--name", "lines", database_url=database)
    assert "1,048 questions" in outcome.stdout
