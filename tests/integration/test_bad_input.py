"""Bad input, which causes a one-line message with the error, its place and the remedy, and status 1 or 2."""

import gzip
import json
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from registry.db import get_engine, write_session
from tests.support.commands import shuffleboard, shuffleboard_process
from tests.support.population import add_benchmark, add_model, question, table_counts, write_lines
from tests.support.weights import whole_weights

pytestmark = pytest.mark.one_engine

GOOD = question(0)


@pytest.fixture
def engine(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Engine:
    """Return a database with a benchmark and a model, to which a failing command could add something."""
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", database)
    created = get_engine(database)
    with write_session(created) as session:
        add_benchmark(session, tmp_path, [question(0), question(1)], "there")
        add_model(session)
    return created


def refuse(command: Iterable[object], status: int, *parts: str, **settings: object) -> str:
    """Check that a command ends with this status and a message of one line with all parts; return the message."""
    outcome = shuffleboard(*command, status=status, **settings)
    assert outcome.stdout == ""
    message, *help_ = outcome.stderr.strip().splitlines()
    assert message.startswith("Error: ")
    # A message about the command line itself is followed by the command that shows its help.
    assert all(re.fullmatch(r"Try 'shuffleboard.* --help' for help\.", line) for line in help_), outcome.stderr
    assert "Traceback" not in outcome.stderr
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"
    return message


def line(**changes: object) -> str:
    return json.dumps(GOOD | changes)


def omit(key: str) -> str:
    return json.dumps({name: value for name, value in GOOD.items() if name != key})


# Second line of a file whose first is good -> place, value and remedy in the message.
BAD_LINES = {
    "not JSON": ("{oops", "not JSON", "'{oops'", "give one JSON object per line"),
    "cut off": (line()[:-10], "not JSON", "give one JSON object per line"),
    "not an object": ('["a", "b"]', "is not a JSON object", "give one object per line"),
    "NaN": (line().replace('"answer": 0', '"answer": NaN'), "NaN is not a number that can be stored", "finite"),
    "Infinity": (line(weight=float("inf")), "Infinity is not a number that can be stored", "finite"),
    "a number beyond all numbers": (
        line(id="x", weight=1).replace('"weight": 1', '"weight": 1e999'),
        "1e999",
        "finite",
    ),
    "an answer beyond the options": (line(id="x", answer=4), "answer 4 is outside 0 … 3", "the first option is 0"),
    "a negative answer": (line(id="x", answer=-1), "answer -1 is outside 0 … 3", "the first option is 0"),
    "an answer that is a letter": (line(id="x", answer="A"), "answer 'A' is not a whole number", "0-based index"),
    "an answer that is a fraction": (line(id="x", answer=1.0), "answer '1.0' is not a whole number", "0-based"),
    "an answer that is a truth value": (line(id="x", answer=True), "answer 'true' is not a whole number", "0-based"),
    "an id that is there already": (line(), "id 'q0' is already used on line 1", "give each question its own id"),
    "an empty id": (line(id=""), "id is empty", "give each question its own id"),
    "an id that is a list": (line(id=["x"]), "is not text", "quotation marks"),
    "an empty option": (line(id="x", options=["a", ""], answer=0), "option 1 of 'x' is empty", "fill it in or remove"),
    "a blank option": (
        line(id="x", options=[" \t", "b"], answer=0),
        "option 0 of 'x' is empty",
        "fill it in or remove",
    ),
    "an option that is a number": (line(id="x", options=["a", 2], answer=0), "option 1 '2' is not text", "quotation"),
    "one option": (line(id="x", options=["a"], answer=0), "options '[\"a\"]'", "at least two options"),
    "options that are a text": (line(id="x", options="ab", answer=0), "options 'ab'", "at least two options"),
    "a question that is a number": (line(id="x", question=7), "question '7' is not text", "quotation marks"),
    "a subject that is a list": (line(id="x", subject=["s"]), "subject", "is not text"),
    "no id": (omit("id"), "key 'id' is missing", "add it"),
    "no question": (omit("question"), "key 'question' is missing", "add it"),
    "no options": (omit("options"), "key 'options' is missing", "add it"),
    "no answer": (omit("answer"), "key 'answer' is missing", "add it"),
    "a key given twice": (line(id="x")[:-1] + ', "answer": 1}', "key 'answer' is given twice", "keep one"),
    "context and passage": (line(id="x", context="c", passage="p"), "context and its alias passage", "keep one"),
    "a NUL character": (line(id="x", question="a\0b"), "question contains a NUL character", "remove it"),
    "a NUL character in an unknown key": (line(id="x", note={"a\0": 1}), "NUL character", "remove it"),
    "half a surrogate pair": (line(id="x", question="\ud83d"), "half a surrogate pair", "repair the text"),
    "half a pair in an unknown key": (line(id="x", note=["\udc00"]), "half a surrogate pair", "repair the text"),
    "nested without end": ('{"id": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply", "one flat JSON"),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_of_a_benchmark_is_refused_and_nothing_is_stored(engine: Engine, tmp_path: Path, name: str) -> None:
    bad, *parts = BAD_LINES[name]
    path = tmp_path / "questions.jsonl"
    path.write_text(f"{line()}\n{bad}\n", encoding="utf-8")
    before = table_counts(engine)
    refuse(("benchmarks", "import", path, "--name", "bad"), 1, "questions.jsonl line 2: ", *parts)
    assert table_counts(engine) == before


def damage_gzip(folder: Path) -> Path:
    path = folder / "bad.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(question(n)) + "\n" for n in range(50)).encode())[:-20])
    return path


def no_gzip(folder: Path) -> Path:
    path = folder / "bad.jsonl.gz"
    path.write_text(line())
    return path


def written(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content)
        return path

    return write


def make_folder(folder: Path) -> Path:
    path = folder / "folder.jsonl"
    path.mkdir()
    return path


CSV_HEAD = b"id,subject,question,options,answer\n"
# Function that makes the file -> parts of the message.
BAD_FILES: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "a file that does not exist": (lambda folder: folder / "missing.jsonl", ("missing.jsonl: no such file", "path")),
    "a table that does not exist": (lambda folder: folder / "missing.csv", ("missing.csv: no such file", "path")),
    "a folder": (make_folder, ("is a folder", "give a file in it")),
    "an empty file": (written("none.jsonl", b""), ("none.jsonl: contains no question", "at least one line")),
    "blank lines only": (written("none.jsonl", b"\n \n"), ("none.jsonl: contains no question", "at least one line")),
    "another kind of file": (written("x.ods", b""), ("x.ods: unknown kind of file", "use .jsonl")),
    "bytes that are not UTF-8": (
        written("x.jsonl", line(question="caf#").encode().replace(b"#", b"\xe9")),
        ("x.jsonl line 1: byte 0xe9 at column", "is not UTF-8", "save the file as UTF-8"),
    ),
    "a damaged gzip file": (damage_gzip, ("bad.jsonl.gz: damaged gzip file", "fetch or compress it again")),
    "a gzip file that is none": (no_gzip, ("bad.jsonl.gz: damaged gzip file", "fetch or compress it again")),
    "a table that is none": (written("x.parquet", b"PAR1"), ("x.parquet: cannot be read as Parquet", "check the file")),
    "an empty table": (written("x.csv", b""), ("x.csv: contains no question", "at least one line")),
    "a table without rows": (written("x.csv", CSV_HEAD), ("x.csv: contains no question", "at least one line")),
    "a table whose options are no list": (
        written("x.csv", CSV_HEAD + b"q1,s,Why?,yes;no,0\n"),
        ("x.csv line 2: options 'yes;no' is not a JSON list", 'such as ["yes", "no"]'),
    ),
    "a table whose answer is a letter": (
        written("x.csv", CSV_HEAD + b'q1,s,Why?,"[""yes"", ""no""]",A\n'),
        ("x.csv line 2: answer 'A' is not a whole number", "0-based index"),
    ),
    "a table that lacks a column": (
        written("x.csv", b'id,subject,options,answer\nq1,s,"[""yes"", ""no""]",0\n'),
        ("x.csv line 2: key 'question' is missing",),
    ),
    "a table with more cells than headings": (
        written("x.csv", CSV_HEAD + b'q1,s,Why?,"[""yes"", ""no""]",0,more\n'),
        ("x.csv", "line 2"),
    ),
    "several splits": (
        written("x.jsonl", f"{line(split='dev')}\n{line(id='x', split='test')}\n".encode()),
        ("x.jsonl: has several splits (dev, test)", "choose one with --split"),
    ),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_benchmark_is_refused_and_nothing_is_stored(
    engine: Engine, tmp_path: Path, name: str
) -> None:
    make, parts = BAD_FILES[name]
    before = table_counts(engine)
    refuse(("benchmarks", "import", make(tmp_path), "--name", "bad"), 1, *parts)
    assert table_counts(engine) == before


def model_folder(**changes: bytes | None) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": whole_weights()} | changes
        model = folder / "model"
        model.mkdir()
        for name, content in files.items():
            if content is not None:
                (model / name).write_bytes(content)
        return model

    return make


def questions(*lines: dict[str, object], name: str = "x.jsonl") -> Callable[[Path], Path]:
    return lambda folder: write_lines(folder / name, lines)


HUGE = "9" * 30
# Names in braces in the commands below -> functions that make these files.
MADE: dict[str, Callable[[Path], Path]] = {
    "folder": lambda folder: folder,
    "good": questions(GOOD),
    "dev": questions(GOOD | {"split": "dev"}),
    "with_pool": questions(GOOD, question(1, split="fewshot")),
    "pool": questions(question(2), name="pool.jsonl"),
    "model": model_folder(),
    "no_weights": model_folder(**{"model.safetensors": None}),
    "pickle": model_folder(**{"model.safetensors": None, "pytorch_model.bin": b"\x80\x04."}),
    "no_config": model_folder(**{"config.json": None}),
    "no_tokenizer": model_folder(**{"tokenizer.json": None}),
    "bad_tokenizer": model_folder(**{"tokenizer_config.json": b"{oops"}),
    "no_gguf": written("x.gguf", b"PK\x03\x04"),
    "cut_gguf": written("x.gguf", b"GGUF\x03\x00\x00\x00\x05\x00\x00\x00"),
}
# Command -> exit status and parts of the message.
BAD_COMMANDS: dict[str, tuple[int, tuple[str, ...]]] = {
    "benchmarks import {good} --name 'a b'": (2, ("benchmark name 'a b'", "use up to 200 letters")),
    "benchmarks import {dev} --name b --split test": (
        1,
        ("x.jsonl: contains no question of split 'test'", "give at least one line"),
    ),
    "benchmarks import {good} --name b --fewshot missing.jsonl": (1, ("missing.jsonl: no such file", "check the path")),
    "benchmarks import {with_pool} --name b --fewshot {pool}": (
        1,
        ("x.jsonl: has fewshot lines already", "remove --fewshot or those lines"),
    ),
    "benchmarks import {good} --name b --shuffle-options one": (2, ("'one' is not a valid integer",)),
    f"benchmarks import {{good}} --name b --shuffle-options {HUGE}": (2, ("--shuffle-options", HUGE)),
    "benchmarks show mmlu": (1, ("no benchmark 'mmlu'", "known: there", "benchmarks import FILE")),
    "benchmarks show there@v9": (1, ("benchmark there has no version 'v9'", "it has: ")),
    "models add m --kind huggingface --location {folder}/none": (1, ("none: no such file or folder", "check the path")),
    "models add m --kind huggingface --location {no_weights}": (
        1,
        ("model: contains no weights (*.safetensors)", "check the folder"),
    ),
    "models add m --kind huggingface --location {pickle}": (
        1,
        ("model: weights are a pickle (pytorch_model.bin)", "can run code", "convert them to safetensors"),
    ),
    "models add m --kind huggingface --location {no_config}": (
        1,
        ("model: contains no config.json", "give the folder of a transformers model"),
    ),
    "models add m --kind huggingface --location {no_tokenizer}": (
        1,
        ("model: contains no tokenizer", "save it next to the weights"),
    ),
    "models add m --kind huggingface --location {model}/model.safetensors": (
        1,
        ("model.safetensors: is a file", "give the folder"),
    ),
    "models add m --kind huggingface --location {bad_tokenizer}": (
        1,
        ("tokenizer_config.json: not valid JSON", "save the tokenizer again"),
    ),
    "models add m --kind huggingface --location nonsense": (
        1,
        ("nonsense: neither a folder here nor a hub name", "organisation/model"),
    ),
    "models add m --kind gguf --location {folder}/none.gguf": (1, ("none.gguf: no such file", "check the path")),
    "models add m --kind gguf --location {no_gguf}": (1, ("x.gguf: not a GGUF file", "check the path")),
    "models add m --kind gguf --location {cut_gguf}": (1, ("x.gguf: cannot be read as GGUF", "fetch it again")),
    "models add m --kind gguf": (2, ("a gguf model needs --location",)),
    "models add m --kind onnx --location x": (2, ("'onnx' is not one of",)),
    "models add m --kind huggingface --location {model} --dtype int3": (2, ("dtype 'int3'", "use one of float32")),
    "models add m --kind huggingface --location {model} --quantisation q2": (
        2,
        ("quantisation 'q2'", "use one of int8-weight-only"),
    ),
    "models add m --kind huggingface --location {model} --adapter lora": (
        1,
        ("adapter lora: neither a folder here", "hub name"),
    ),
    "models add a/b --kind huggingface --location {model}": (2, ("model name 'a/b'", "use up to 200 letters")),
    f"models add m --kind huggingface --location {{model}} --parameters {HUGE}": (2, ("--parameters", HUGE)),
    "models show gpt": (1, ("no model 'gpt'", "known: fake", "shuffleboard models add gpt")),
    "models show fake@7": (1, ("model fake has no revision '7'", "it has: 1")),
    "evaluations submit --model fake --benchmark there --variants spiral": (
        2,
        ("unknown variant kind 'spiral'", "use one of original, "),
    ),
    "evaluations submit --model fake --benchmark there --variants cyclic:seed=1": (
        2,
        ("variants 'cyclic:seed=1': 'seed=1' is not a parameter of cyclic", "it takes: repeats"),
    ),
    "evaluations submit --model fake --benchmark there --variants cyclic --protocol guess": (
        2,
        ("unknown protocol 'guess'", "known: symbols"),
    ),
    "evaluations submit --model fake --benchmark there --variants cyclic --shots -1": (
        2,
        ("shots -1", "from 0 to 100"),
    ),
    "evaluations submit --model fake --benchmark there --variants cyclic --shots 3": (
        2,
        ("3 shots requested", "few-shot pool of there holds 0", "--fewshot FILE"),
    ),
    "evaluations submit --model fake --benchmark there --variants cyclic --limit 0": (2, ("limit 0", "from 1")),
    f"evaluations submit --model fake --benchmark there --variants cyclic --limit {HUGE}": (2, ("limit", HUGE)),
    f"evaluations submit --model fake --benchmark there --variants cyclic --priority {HUGE}": (2, ("--priority", HUGE)),
    "evaluations submit --model fake --benchmark there --variants cyclic --subject alchemy": (
        1,
        ("benchmark there has no subject 'alchemy'", "it has: physics"),
    ),
    "evaluations submit --model gpt --benchmark there --variants cyclic": (1, ("no model 'gpt'",)),
    "evaluations submit --model fake --benchmark mmlu --variants cyclic": (1, ("no benchmark 'mmlu'",)),
    "metrics 7 --json": (1, ("no evaluation 7", "has 0", "evaluations list")),
    "verify seven": (2, ("'seven' is not the id of an evaluation",)),
    f"provenance {HUGE}": (1, (f"no evaluation {HUGE}",)),
    "evaluate": (2, ("No such command 'evaluate'",)),
    "worker --until-idle --tensor-parallel 64": (2, ("--tensor-parallel 64", "needs 64 GPUs", "shuffleboard doctor")),
    "worker --until-idle --device gpu7": (2, ("--device gpu7: ", "shuffleboard doctor")),
}


def words(command: str, folder: Path) -> list[str]:
    """Split a command into words; make its files in the folder."""
    names = set(re.findall(r"{(\w+)}", command))
    return shlex.split(command.format_map({name: MADE[name](folder) for name in names}))


@pytest.mark.parametrize("command", BAD_COMMANDS)
def test_a_command_that_cannot_be_right_is_refused_and_nothing_is_stored(
    engine: Engine, tmp_path: Path, command: str
) -> None:
    status, parts = BAD_COMMANDS[command]
    before = table_counts(engine)
    refuse(words(command, tmp_path), status, *parts)
    assert table_counts(engine) == before


def test_a_version_name_that_other_content_has_is_refused(engine: Engine, tmp_path: Path) -> None:
    first = write_lines(tmp_path / "first.jsonl", [question(1)])
    changed = write_lines(tmp_path / "other.jsonl", [question(2)])
    shuffleboard("benchmarks", "import", first, "--name", "b", "--version", "v1")
    before = table_counts(engine)
    command = ("benchmarks", "import", changed, "--name", "b", "--version", "v1")
    refuse(command, 1, "benchmark b has a version 'v1' with other content", "choose another --version")
    assert table_counts(engine) == before


def test_an_external_model_cannot_be_asked(engine: Engine) -> None:
    shuffleboard("models", "add", "theirs", "--kind", "external")
    before = table_counts(engine)
    command = "evaluations submit --model theirs --benchmark there --variants cyclic"
    refuse(command.split(), 2, "model theirs is external", "shuffleboard evaluations import")
    assert table_counts(engine) == before


# Settings and databases. Name of the variable -> value, from the test's folder; the message.
BAD_SETTINGS: dict[str, tuple[dict[str, Callable[[Path], object]], int, tuple[str, ...]]] = {
    "a number that is none": (
        {"lease_seconds": lambda _: "soon"},
        2,
        ("SHUFFLEBOARD_LEASE_SECONDS='soon'", "correct or unset the variable"),
    ),
    "a lease of no time": (
        {"lease_seconds": lambda _: "0"},
        2,
        ("SHUFFLEBOARD_LEASE_SECONDS='0'", "greater than 0", "correct or unset the variable"),
    ),
    "an unknown level of the log": (
        {"log_level": lambda _: "loud"},
        2,
        ("SHUFFLEBOARD_LOG_LEVEL='loud'", "use debug, info, warning or error"),
    ),
    "another kind of database": (
        {"database_url": lambda _: "mysql://localhost/x"},
        2,
        ("SHUFFLEBOARD_DATABASE_URL", "sqlite:/// or postgresql:// URL"),
    ),
    "an address that is none": (
        {"database_url": lambda _: "nonsense"},
        2,
        ("SHUFFLEBOARD_DATABASE_URL", "correct or unset the variable"),
    ),
    "a database that does not answer": (
        {"database_url": lambda _: "postgresql://reader:secret@127.0.0.1:9/x"},
        1,
        ("cannot be opened", "check SHUFFLEBOARD_DATABASE_URL"),
    ),
    "a file that is no database": (
        {"database_url": lambda folder: f"sqlite:///{written('notes.txt', b'no database at all' * 99)(folder)}"},
        1,
        ("notes.txt", "cannot be opened", "check SHUFFLEBOARD_DATABASE_URL"),
    ),
    "a data directory that is a file": (
        {"home": written("file", b"")},
        1,
        ("file", "data directory", "SHUFFLEBOARD_HOME"),
    ),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_a_setting_that_cannot_be_right_is_named(tmp_path: Path, name: str) -> None:
    values, status, parts = BAD_SETTINGS[name]
    settings = {name: value(tmp_path) for name, value in values.items()}
    assert "secret" not in refuse(("models", "list"), status, *parts, **settings)


def test_an_empty_postgresql_database_is_not_set_up_unasked(postgresql_url: str) -> None:
    refuse(("models", "list"), 1, "is empty", "run: shuffleboard db upgrade", database_url=postgresql_url)


def test_a_database_newer_than_the_code_is_left_alone(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '299901010000'")
    for command in (("models", "list"), ("db", "check"), ("db", "upgrade")):
        refuse(command, 75, "at revision 299901010000, newer than this code", "upgrade the code")


def test_a_real_process_ends_with_the_same_status_and_no_traceback(tmp_path: Path) -> None:
    outcome = shuffleboard("benchmarks", "import", tmp_path / "missing.jsonl", "--name", "b", status=1)
    assert outcome.stdout == ""
    assert outcome.stderr == f"Error: {tmp_path / 'missing.jsonl'}: no such file; check the path\n"


def test_workers_of_devices_that_there_are_none_of_end_at_once(engine: Engine) -> None:
    outcome = shuffleboard_process("worker", "--device", "gpu7", "--device", "gpu8", status=1)
    for device in ("gpu7", "gpu8"):
        assert f"Error: --device {device}: " in outcome.stderr
    assert "starts_again" not in outcome.stderr
