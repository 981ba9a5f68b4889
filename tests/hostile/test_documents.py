"""Every importer with a hostile value at every place of a document: refused in one line, or stored on both engines."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.db import get_engine
from registry.errors import ShuffleboardError
from tests.conftest import FilledDatabases
from tests.hostile.doors import DEFINITIONS, IMPORTERS, Importer, fill
from tests.hostile.values import JSON_VALUES, TOML_VALUES, Place, places, with_value

LONGEST = 3000
"""Largest number of characters in a message."""


def outcome(importer: Importer, engine: Engine, folder: Path, text: str) -> str:
    """Return the reason why an import was refused, or "" if it succeeded. Any other error fails the test."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    path = importer.write(folder, text)
    try:
        importer.read(engine, path)
    except ShuffleboardError as error:
        message = str(error)
        assert message, text[:200]
        assert "\n" not in message
        assert len(message) < LONGEST, message[:200]
        message.encode()
        return message
    return ""


def some(name: str, every: int, times: int = 1) -> Iterator[tuple[Place, str]]:
    """Yield every `every`-th value, each time at different places."""
    everywhere = list(dict.fromkeys(places(IMPORTERS[name].document)))
    for number, value in enumerate(JSON_VALUES):
        if (number + len(name)) % every == 0:
            for time in range(times):
                yield everywhere[(7 * number + 11 * time + len(name)) % len(everywhere)], value


@pytest.mark.parametrize("name", IMPORTERS)
def test_a_hostile_value_is_refused_or_stored_by_both_engines_alike(
    filled_sqlite: FilledDatabases, filled_postgresql: FilledDatabases, tmp_path: Path, name: str
) -> None:
    importer = IMPORTERS[name]
    with (
        filled_sqlite.copy(fill, tmp_path) as (sqlite_url, _),
        filled_postgresql.copy(fill, tmp_path) as (postgresql_url, _),
    ):
        engines = [get_engine(sqlite_url), get_engine(postgresql_url)]
        assert [outcome(importer, engine, tmp_path / "h", json.dumps(importer.document)) for engine in engines] == [
            "",
            "",
        ]
        for place, value in some(name, every=12):
            text = with_value(importer.document, place, JSON_VALUES[value])
            outcomes = [outcome(importer, engine, tmp_path / "h", text) for engine in engines]
            assert outcomes[0] == outcomes[1], (place, value)
        for engine in engines:
            engine.dispose()


@pytest.mark.long
@pytest.mark.parametrize("name", IMPORTERS)
def test_a_hostile_value_is_refused_or_stored_wherever_it_stands(
    filled_databases: FilledDatabases, tmp_path: Path, name: str
) -> None:
    importer = IMPORTERS[name]
    with filled_databases.copy(fill, tmp_path) as (url, _):
        engine = get_engine(url)
        for place, value in some(name, every=1, times=4):
            outcome(importer, engine, tmp_path / "h", with_value(importer.document, place, JSON_VALUES[value]))
        engine.dispose()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_hostile_definition_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    definition = DEFINITIONS[name]
    path = tmp_path / "definition.toml"
    path.write_text(definition.text, encoding="utf-8")
    definition.read(path)
    texts = [definition.with_value(key, value) for key in definition.keys for value in TOML_VALUES.values()]
    texts += [f"{'.'.join('a' * depth)} = 1\n" for depth in (100, 100_000)]
    texts += [f"[{'.'.join('a' * depth)}]\n" for depth in (100, 100_000)]
    texts += [f"[[{'.'.join(['a'] * depth)}]]\n" for depth in (100, 100_000)]
    for text in texts:
        path.write_text(text, encoding="utf-8")
        try:
            definition.read(path)
        except ShuffleboardError as error:
            message = str(error)
            assert "\n" not in message
            assert len(message) < LONGEST, message[:200]
