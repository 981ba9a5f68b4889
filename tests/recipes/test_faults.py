"""Faults of a hub, each of which causes one line with a remedy and stores nothing, and the next attempt succeeds."""

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from registry.benchmarks.recipes import recipe_named
from registry.db import get_engine, read_session
from registry.tables import BenchmarkVersion, ModelRevision
from tests.recipes.hub import COMMIT, Hub, Refusal, arrow, parquet
from tests.recipes.upstream import ROWS, files, make_values
from tests.support.commands import shuffleboard, shuffleboard_json
from tests.support.weights import whole_weights

pytestmark = pytest.mark.one_engine

ROW = ROWS["allenai/sciq"]
NAME = "data/test-00000-of-00001.parquet"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.files.hub.time.sleep", lambda _: None)


@pytest.fixture
def sciq(hub: Hub) -> Hub:
    """Return a hub with a whole benchmark in its original form."""
    hub.add("allenai/sciq", files(recipe_named("sciq")))
    return hub


def make(path: str, refusal: Refusal) -> Callable[[str, dict[str, str]], Refusal | None]:
    return lambda asked, _: refusal if path in asked else None


REFUSALS = {
    "hidden or missing": ("/api/", Refusal(401), r"no such \w+, or hides it.*; check the name.* HF_TOKEN"),
    "gated": ("", Refusal(403, {"X-Error-Code": "GatedRepo"}), r"accept them on http://\S+ and set HF_TOKEN"),
    "forbidden": ("", Refusal(403), r"accept them on http://\S+ and set HF_TOKEN"),
    "no such revision": ("/api/", Refusal(404, {"X-Error-Code": "RevisionNotFound"}), r"no such revision.*--revision"),
    "too many requests": ("", Refusal(429, {"Retry-After": "7200"}), r"too many requests .* wait 7200 s"),
    "busy for long": ("", Refusal(429, {"Retry-After": "1"}), r"too many requests"),
    "not given here": ("", Refusal(451), r"refuses it \(status 451\); its page may say why: http://\S+"),
    "down": ("", Refusal(500), r"answered with status 500; try again later"),
    "files are down": ("/resolve/", Refusal(503), r"answered with status 503; try again later"),
    "cut off": ("/resolve/", Refusal(cut=40), r"cannot be downloaded .*try again: it resumes"),
}


@pytest.mark.parametrize(("path", "refusal", "message"), REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("what", ["benchmark", "model"])
def test_what_a_hub_refuses_is_one_line_and_the_next_try_succeeds(
    what: str, path: str, refusal: Refusal, message: str, sciq: Hub, sqlite_database: str, tmp_path: Path
) -> None:
    sciq.add(
        "me/tiny",
        {
            "config.json": b"{" + 118 * b" " + b"}",
            "model.safetensors": whole_weights("weights" * 40),
            "tokenizer.json": b"{}" * 40,
        },
    )
    command: tuple[str, ...] = ("benchmarks", "fetch", "sciq", "--revision", "main")
    name = "allenai/sciq@main"
    if what == "model":
        command = ("models", "add", "tiny", "--kind", "huggingface", "--location", "me/tiny")
        name = "me/tiny@main"
    options: dict[str, Any] = {"database_url": sqlite_database, "home": tmp_path}
    sciq.faults.append(make(path, refusal))
    done = shuffleboard(*command, status=1, **options)
    assert re.fullmatch(rf"Error: {name}( \S+)?: .*{message}.*\n", done.stderr), done.stderr
    with read_session(get_engine(sqlite_database)) as session:
        assert session.scalar(select(func.count()).select_from(BenchmarkVersion)) == 0
        assert session.scalar(select(func.count()).select_from(ModelRevision)) == 0
    sciq.faults.clear()
    shuffleboard(*command, **options)


def bomb() -> bytes:
    """Return a table with the same text of a megabyte two thousand times."""
    sink = pa.BufferOutputStream()
    text = pa.array(["x" * (1 << 20)])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 2000, pa.int32()), text)
    columns = dict.fromkeys(("question", "correct_answer", "distractor1", "distractor2", "distractor3"), column)
    pq.write_table(pa.table(columns), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def changed(change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    return parquet([change(ROW(question)) for question in make_values(3, 4)])


def rename(row: dict[str, Any]) -> dict[str, Any]:
    return {{"correct_answer": "right"}.get(key, key): value for key, value in row.items()}


CONTENTS = {
    "a column renamed": (
        changed(rename),
        r"line 1: there is no column 'correct_answer'; there are .*right.*--revision",
    ),
    "a column of another type": (
        changed(lambda row: row | {"distractor1": [1.5]}),
        r"line 1: column 'distractor1' is '\[1.5\]', not a text; check the dataset",
    ),
    "no text": (changed(lambda row: row | {"question": None}), r"line 1: column 'question' is 'null', not a text"),
    "a NUL character": (changed(lambda row: row | {"question": "a\0b"}), r"line 1: .*contains a NUL character"),
    "no rows": (parquet([], pa.schema([("question", pa.string())])), r"contains no question"),
    "not Parquet": (b"<html>Sorry</html>", r"cannot be read as Parquet .*check the file"),
    "cut-off Parquet": (changed(lambda row: row)[:-40], r"cannot be read as Parquet"),
    "a Parquet bomb": (bomb(), r"over the limit of \d+; .*SHUFFLEBOARD_UNPACKED_BYTES"),
}


@pytest.mark.parametrize(("content", "message"), CONTENTS.values(), ids=CONTENTS)
def test_files_unlike_their_recipe_are_refused_by_row_and_column(
    content: bytes, message: str, sciq: Hub, sqlite_database: str
) -> None:
    sciq.add("allenai/sciq", {NAME: content})
    command = ("benchmarks", "fetch", "sciq", "--revision", "main")
    done = shuffleboard(*command, status=1, database_url=sqlite_database)
    assert re.fullmatch(rf"Error: .*{message}.*\n", done.stderr), done.stderr
    with read_session(get_engine(sqlite_database)) as session:
        assert session.scalar(select(func.count()).select_from(BenchmarkVersion)) == 0
    sciq.add("allenai/sciq", files(recipe_named("sciq")))
    assert shuffleboard_json(*command, database_url=sqlite_database)["questions"] == 6


COLUMNS = ("id=x-{row}", "question={q}", "options=o")


@pytest.mark.parametrize(
    ("answer", "values", "message"),
    [
        ("answer.index=a", [2], r"column 'a' is '2', .*index counts the 2 options from 0 to 1; .*answer\.number"),
        ("answer.index=a", [-1], r"column 'a' is '-1'"),
        ("answer.index=a", ["1e400"], "not a number"),
        ("answer.index=a", [1.5], "not a number"),
        ("answer.index=a", [float("inf")], "not a number"),
        ("answer.index=a", [True], "not a number"),
        ("answer.number=a", [0], r"column 'a' is '0', .*number counts the 2 options from 1 to 2; .*answer\.index"),
        ("answer.letter=a", ["E"], r"column 'a' is 'E', .*the 2 options have the letters A to B"),
        ("answer.letter=a", [None], "not a letter"),
        ("answer.text=a", ["neither"], "does not single out one option"),
    ],
)
def test_an_answer_that_is_none_of_the_options_is_refused(
    answer: str, values: list[Any], message: str, hub: Hub, sqlite_database: str
) -> None:
    hub.add("me/exam", {"a.parquet": parquet([{"q": "Which?", "o": ["one", "two"], "a": value} for value in values])})
    options = [part for text in (*COLUMNS, answer) for part in ("--columns", text)]
    command = ("benchmarks", "fetch", "--repo", "me/exam", "--files", "a.parquet", *options, "--store")
    done = shuffleboard(*command, status=1, database_url=sqlite_database)
    assert re.fullmatch(rf"Error: me/exam a\.parquet line 1: .*{message}.*\n", done.stderr), done.stderr


KINDS: dict[str, tuple[bytes, str | None]] = {
    "a.csv": (b'q,o,a\n"one\nline",x,B\n', None),
    "b.csv": (b"q,o,a\none,x\n", "has 2 cells, not 3"),
    "c.csv": (b"q,o,a\n\xff,x,B\n", "save it as UTF-8"),
    "d.csv": (b'q,o,a\n"' + b"x" * (17 << 20), "over the limit of 16777216"),
    "a.json": (b'[{"q": "one\\nline", "o": "x", "a": "B"}]', None),
    "b.json": (b'{"q": "one"}', "not a list of records"),
    "c.json": (b"[" * 100_000, "nested too deeply"),
    "d.json": (b'[{"q": 1' + b"0" * 5000 + b"}]", "thousands of digits"),
    "e.json": (b'[{"q": "a\\ud800", "o": "x", "a": "B"}]', "surrogate"),
    "a.jsonl": (b'{"q": "one\\nline", "o": "x", "a": "B"}\n', None),
    "b.jsonl": (b'{"q": NaN}\n', "NaN"),
    "a.arrow": (arrow([{"q": "one\nline", "o": "x", "a": "B"}]), None),
    "b.arrow": (arrow([{"q": "one", "o": "x", "a": "B"}])[:-60], "cannot be read as an Arrow stream"),
    "c.arrow": (arrow([{"q": "x" * (1 << 20), "o": "x", "a": "B"}], "zstd"), "is compressed"),
    "a.txt": (b"?", "unknown kind of file"),
}


@pytest.mark.parametrize(("name", "content", "message"), [(name, *kind) for name, kind in KINDS.items()], ids=KINDS)
def test_each_kind_of_file_is_read_or_refused(
    name: str, content: bytes, message: str | None, hub: Hub, sqlite_database: str
) -> None:
    hub.add("me/exam", {name: content})
    options = [
        part
        for text in ("id=x-{row}", "question={q}", "options={o}", "options=not {o}", "answer.letter=a")
        for part in ("--columns", text)
    ]
    command = ("benchmarks", "fetch", "--repo", "me/exam", "--files", name, *options)
    if message is None:
        [row] = shuffleboard_json(*command, database_url=sqlite_database)["preview"]
        assert (row["question"], row["options"], row["answer"]) == ("one\nline", ["x", "not x"], 1)
        return
    done = shuffleboard(*command, status=1, database_url=sqlite_database)
    assert re.fullmatch(rf"Error: me/exam {name}\b.*{message}.*\n", done.stderr), done.stderr


def test_a_hub_that_answers_with_another_commit_says_what_to_do(sciq: Hub, sqlite_database: str) -> None:
    pinned = recipe_named("sciq").revision
    sciq.commits["allenai/sciq"] = {str(pinned): COMMIT}
    done = shuffleboard("benchmarks", "fetch", "sciq", status=1, database_url=sqlite_database)
    assert f"the hub answered with commit {COMMIT}" in done.stderr
    assert f"--revision {COMMIT}" in done.stderr
    command = ("benchmarks", "fetch", "sciq", "--revision", COMMIT)
    assert shuffleboard_json(*command, database_url=sqlite_database)["questions"] == 6


@pytest.mark.parametrize("shards", [("0000",), ("00000-of-00002", "00001-of-00002")])
def test_shards_may_have_any_names(shards: tuple[str, ...], hub: Hub, sqlite_database: str) -> None:
    questions = make_values(6, 4)
    size = len(questions) // len(shards)
    for number, shard in enumerate(shards):
        part = [ROW(question) for question in questions[number * size : (number + 1) * size]]
        hub.add(
            "allenai/sciq", {f"data/test-{shard}.parquet": parquet(part), "data/validation-0.parquet": parquet(part)}
        )
    command = ("benchmarks", "fetch", "sciq", "--revision", "main")
    assert shuffleboard_json(*command, database_url=sqlite_database)["questions"] == 6


def test_a_disk_that_fills_is_named(sciq: Hub, sqlite_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_names: object, **_options: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("huggingface_hub.hf_hub_download", full)
        done = shuffleboard("benchmarks", "fetch", "sciq", "--revision", "main", status=1, database_url=sqlite_database)
    assert re.fullmatch(r"Error: .*No space left on device.*free space.*\n", done.stderr)
    shuffleboard("benchmarks", "fetch", "sciq", "--revision", "main", database_url=sqlite_database)


# Models


def model(content: bytes = whole_weights()) -> dict[str, bytes]:
    return {"config.json": b"{}", "model.safetensors": content, "tokenizer.json": b"{}", "onnx/model.onnx": b"no"}


def test_a_pinned_models_files_on_this_host_load_without_the_hub(
    hub: Hub, sqlite_database: str, tmp_path: Path
) -> None:
    hub.add("me/tiny", model())
    options: dict[str, Any] = {"database_url": sqlite_database, "home": tmp_path}
    shuffleboard("models", "add", "tiny", "--kind", "huggingface", "--location", "me/tiny", **options)
    assert not any("onnx" in path for _, path in hub.asked)
    hub.asked.clear()
    hub.faults.append(lambda *_: Refusal(500))
    assert COMMIT in shuffleboard_json("models", "prefetch", "tiny", **options)["folder"]
    assert hub.asked == []


def test_a_model_that_does_not_fit_is_refused_before_it_is_downloaded(
    hub: Hub, sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("me/tiny", model())
    from registry.files import hub as module

    usage = module.shutil.disk_usage("/")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    command = ("models", "add", "tiny", "--kind", "huggingface", "--location", "me/tiny")
    done = shuffleboard(*command, status=1, database_url=sqlite_database, home=tmp_path)
    assert re.fullmatch(r"Error: me/tiny@main: .* do not fit on the disk of .* 1 MiB free; make room.*\n", done.stderr)
    assert not any("/resolve/" in path for _, path in hub.asked)


def test_offline_a_model_that_is_not_in_the_cache_says_so(
    hub: Hub, sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    command = ("models", "add", "tiny", "--kind", "huggingface", "--location", "me/tiny")
    done = shuffleboard(*command, status=1, database_url=sqlite_database, home=tmp_path)
    assert "me/tiny@main: is not in the cache, and HF_HUB_OFFLINE forbids asking the hub; unset it" in done.stderr


def test_a_name_on_the_hub_is_submitted_and_registered_once(hub: Hub, sqlite_database: str, tmp_path: Path) -> None:
    hub.add("me/tiny", model())
    (tmp_path / "q.jsonl").write_text(
        '{"id": "q", "subject": "s", "question": "Which?", "options": ["one", "two"], "answer": 0}\n', encoding="utf-8"
    )
    (tmp_path / "s.toml").write_text(
        'name = "s"\nvariants = ["cyclic"]\n[[tasks]]\nbenchmark = "q"\n', encoding="utf-8"
    )
    options: dict[str, Any] = {"database_url": sqlite_database, "home": tmp_path}
    shuffleboard("benchmarks", "import", tmp_path / "q.jsonl", "--name", "q", **options)
    shuffleboard("suites", "import", tmp_path / "s.toml", **options)
    submit = ("evaluations", "submit", "--suite", "s", "--model", "me/tiny", "--limit", "1")
    first = shuffleboard(*submit, **options)
    assert f"me/tiny is registered as tiny@1, commit {COMMIT}" in first.stderr
    assert "its board: shuffleboard leaderboard --board s-first-1" in first.stderr
    again = shuffleboard(*submit, **options)
    assert "registered" not in again.stderr
    assert first.stdout == again.stdout
    assert "s-first-1" in shuffleboard("boards", "list", **options).stdout
