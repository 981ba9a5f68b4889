"""Permissions in the data directory, which only its owner may access, whatever the umask."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry.files.remembered import remember_sha256
from registry.private import close, make_folder, open_to_others
from registry.settings import Settings
from registry.sql import Queries
from shuffleboard.cli import beat
from shuffleboard.packaged import _join
from tests.docs.pages import ROOT, blocks
from tests.support.commands import shuffleboard, shuffleboard_json
from web import create_app


@pytest.fixture(autouse=True)
def without_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.mark.one_engine
def test_everything_in_the_data_directory_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    questions, answers = (block.text for block in blocks(ROOT / "README.md") if block.language == "json")
    (tmp_path / "questions.jsonl").write_text(questions, encoding="utf-8")
    (tmp_path / "answers.jsonl").write_text(answers, encoding="utf-8")
    home = tmp_path / "new" / "home"
    monkeypatch.setenv("SHUFFLEBOARD_HOME", str(home))

    def command(line: str) -> None:
        shuffleboard(*line.split(), home=home)

    command(f"benchmarks import {tmp_path}/questions.jsonl --name exam")
    command("models add theirs --kind external")
    command(f"evaluations import {tmp_path}/answers.jsonl --model theirs --benchmark exam --variants cyclic")
    command("chain key new")
    command("evaluations archive 1")
    settings = Settings(home=home)
    beat._write(beat.sign_of_life(settings))
    app = create_app(settings)
    assert app.test_client().get("/").status_code == 200
    queries = Queries(app.extensions["shuffleboard_engine"], settings)
    queries.ask("public", "SELECT * FROM leaderboard", "me")
    queries.files.write("public")
    remember_sha256(ROOT / "LICENSE")
    _join([tmp_path / "answers.jsonl"], home / "models" / "joined.gguf")

    permissions = modes(home)
    wanted = (
        "shuffleboard.db",
        "secret.key",
        "chain-key.pem",
        "beat",
        "archives",
        "evaluation_id=1",
        "digests",
        "joined.gguf",
    )
    for name in wanted:
        assert [path for path in permissions if name in path], f"{name} was not written"
    assert {path: oct(mode) for path, mode in permissions.items() if mode & 0o077} == {}
    (check,) = (
        finding for finding in shuffleboard_json("doctor", home=home)["checks"] if finding["name"] == "data directory"
    )
    assert check["status"] != "warning" or "others" not in check["found"]


@pytest.mark.one_engine
def test_the_doctor_names_what_others_can_reach(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shuffleboard("db", "upgrade", home=home)
    (home / "sql").mkdir()
    for path in (home, home / "sql"):
        path.chmod(0o755)
    (check,) = (
        finding for finding in shuffleboard_json("doctor", home=home)["checks"] if finding["name"] == "data directory"
    )
    assert (check["status"], check["remedy"]) == ("warning", f"chmod -R go-rwx {home}")
    assert f"others may read or change {home}, {home / 'sql'}, with" in check["found"]


def test_a_closed_folder_hides_its_contents(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "file").touch()
    assert modes(tmp_path / "a") == {
        str(tmp_path / "a"): 0o700,
        str(tmp_path / "a" / "b"): 0o700,
        str(tmp_path / "a" / "b" / "file"): 0o666,
    }
    assert list(open_to_others(tmp_path / "a", os.geteuid())) == []
    (tmp_path / "a").chmod(0o750)
    assert list(open_to_others(tmp_path / "a", os.geteuid())) == [tmp_path / "a"]
    close(tmp_path / "a")
    assert set(modes(tmp_path / "a").values()) == {0o700, 0o600}


def test_a_folder_of_another_account_is_searched_and_not_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    tmp_path.chmod(0o700)
    assert list(open_to_others(tmp_path, os.geteuid() + 1)) == []
