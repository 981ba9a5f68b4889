"""Wrong commands, which exit with status 1 or 2 and name the object, the value and the remedy."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from registry.settings import Settings
from shuffleboard.cli.address import announce, page_address
from shuffleboard.cli.common import GivenFile
from shuffleboard.cli.misuse import MEANT
from tests.outputs.conftest import Registry
from tests.support.commands import shuffleboard
from tests.support.surface import COMMANDS
from tests.terminal.conftest import BENCHMARK, LONG

WRONG: dict[str, tuple[int, tuple[str, ...]]] = {
    # Commands and options
    "leaderbord": (2, ("'leaderbord'", "Did you mean 'leaderboard'?")),
    "frobnicate": (2, ("'frobnicate'", "shuffleboard --help")),
    "model list": (2, ("'model'", "'models'")),
    "evaluations lst": (2, ("'lst'", "'list'")),
    "leaderboard --bord main": (2, ("'--bord'", "'--board'")),
    "models add m --kind gguff": (2, ("--kind", "'gguff'", "did you mean gguf?")),
    "metrics one": (2, ("'one'", "evaluations list")),
    "chain verifi": (2, ("'verifi'", "Did you mean 'verify'?")),
    "evaluations list --state done": (2, ("--state", "'done'", "'complete'")),
    "evaluations show one": (2, ("'one'", "not a valid integer")),
    # A beginning, and a command of a group without its group.
    "bench list": (2, ("'bench'", "Did you mean 'benchmarks'?")),
    "submit --model m": (2, ("'submit'", "Did you mean 'evaluations submit'?")),
    "compare 1 2": (2, ("'compare'", "'statistics compare'")),
    "eval list": (2, ("'eval'", "Did you mean 'evaluations'?")),
    "evaluations leaderbord": (2, ("'leaderbord'", "It is no part of a group: shuffleboard leaderboard")),
    "models remove medalpaca-7b": (2, ("'remove'", "It is one of: add, list,")),
    "chain show 5": (2, ("'show'", "It is one of: key, list, sign, verify.")),
    # Words in another order, or of other programs.
    "list models": (2, ("'list'", "Did you mean 'models list'?")),
    "add model m": (2, ("'add'", "Did you mean 'models add'?")),
    "show 1": (2, ("'show'", "Did you mean 'evaluations show'?")),
    "import {}/suite.toml": (2, ("'import'", "Did you mean 'suites import'?")),
    "shuffleboard models list": (2, ("'shuffleboard'", "Did you mean 'models list'?")),
    "--json leaderboard": (2, ("--json", "comes after the command: shuffleboard COMMAND --json")),
    "show NAME": (
        2,
        ("'show'", "Name its group first, such as: shuffleboard benchmarks show NAME; others with it: models,"),
    ),
    "list nowhere": (2, ("'list'", "others with it: models, evaluations, protocols, suites, boards and 4 more.")),
    "import nowhere.csv": (
        2,
        ("'import'", "Name its group first, such as: shuffleboard benchmarks import FILE --name NAME;"),
    ),
    "run": (2, ("'run'", "Did you mean 'evaluations submit'?")),
    "sql": (2, ("'sql'", "SQL is a page of the website: http://127.0.0.1:8000/sql")),
    # Words too many and too few: the whole command.
    "leaderboard main": (2, ("unexpected 'main'", "takes options alone, such as --board")),
    "evaluations show 1 2": (2, ("unexpected '2'", "takes EVALUATION_ID")),
    "models add new name --kind external": (2, ("unexpected 'name'", "takes NAME", "in quotation marks")),
    "evaluations cancel": (2, ("EVALUATION_ID is missing", "evaluations cancel EVALUATION_ID", "evaluations list")),
    "evaluations withdraw 1": (2, ("--reason is missing", "evaluations withdraw 1 --reason REASON")),
    "statistics compare 1": (2, ("SECOND is missing", "statistics compare 1 SECOND")),
    "export --to {}/new": (2, ("--format is missing", "export --format FORMAT --to {}/new", "one of parquet, csv")),
    "leaderboard --csv --json": (2, ("--csv and --json", "give one of the two")),
    "evaluations list --limit ten": (2, ("--limit", "'ten'", "x>=1")),
    "leaderboard --columns acc": (2, ("--columns 'acc'", "did you mean accuracy?")),
    "leaderboard --model=": (1, ("no model ''", LONG, "models add NAME")),
    "verify seven": (2, ("'seven'", "evaluations list")),
    "verify {}/nowhere": (1, ("nowhere: no such file", "check the path")),
    "submissions approve one": (2, ("'one'", "submissions list shows the numbers")),
    "statistics noise 1 two": (2, ("'two'", "evaluations list shows the numbers")),
    f"models rename medalpaca-7b {LONG.lower()}": (2, (f"'{LONG.lower()}' is the name of", f"model '{LONG}'")),
    # A number below 0 is no option.
    "evaluations show -5": (2, ("EVALUATION_ID", "it cannot be below 0")),
    "budgets set evaluation 12 -12.5": (2, ("AMOUNT", "it cannot be below 0")),
    "evaluations submit --model m --budget -5": (2, ("--budget", "-5", "x>=0")),
    "leaderboard -5": (2, ("'-5'",)),
    "serve --port 99999": (2, ("--port", "99999", "65535")),
    "worker --queues gpuu": (2, ("queue 'gpuu'", "cpu, gpu, gpu-16")),
    "leaderboard --columns model,acuracy": (2, ("--columns 'acuracy'", "did you mean accuracy")),
    "boards show main --columns rnk": (2, ("--columns 'rnk'", "did you mean rank")),
    "export --format xlsx --out x": (2, ("--format", "'xlsx'", "'parquet'")),
    # Names of objects in the registry
    "leaderboard --variants nope": (2, ("variant kind 'nope'", "use one of original", "cyclic")),
    "leaderboard --variants cylic": (2, ("'cylic'", "did you mean cyclic?")),
    "leaderboard --benchmark mmlu-professional": (1, ("benchmark 'mmlu-professional'", f"did you mean {BENCHMARK}?")),
    "leaderboard --model medalpacca-7b": (1, ("model 'medalpacca-7b'", "did you mean medalpaca-7b?")),
    "models show mistrall": (1, ("model 'mistrall'", f"did you mean {LONG}?")),
    "published list --paper nowack": (1, ("paper 'nowack'", "did you mean Nowak et al.?")),
    "assess --benchmark mmlu": (1, ("benchmark 'mmlu'", BENCHMARK)),
    "compare-protocols symbls hybrid": (2, ("protocol 'symbls'", "did you mean symbols?")),
    "leaderboard --protocol symbol": (2, ("protocol 'symbol'", "did you mean symbols?")),
    "leaderboard --board mian": (1, ("board 'mian'", "did you mean main?")),
    "leaderboard --board main --variants cyclic": (2, ("board main", "leave out --variants")),
    "leaderboard --as-of yesterday": (2, ("--as-of", "goes with --board")),
    "boards show main --as-of yesterday": (2, ("'yesterday'", "2026-11-21")),
    "evaluations show 99": (1, ("evaluation 99", "the registry has 2", "evaluations list")),
    "suites show robustness-cor": (1, ("suite 'robustness-cor'", "did you mean robustness-core?")),
    "models show medalpaca-7b@3": (1, ("medalpaca-7b", "'3'", "it has: 1")),
    "published list --metric acuracy": (1, ("metric 'acuracy'", "did you mean accuracy")),
    "evaluations submit --model medalpaca-7b": (2, ("--benchmark is missing", "or --suite, or --board")),
    "leaderboard --variants divergent:sed=1": (2, ("'sed=1'", "did you mean seed?")),
    # Files
    "evaluations import {}/benchmark.jsonl": (1, ("benchmark.jsonl: is a benchmark", "benchmarks import {}/bench")),
    "evaluations import {}/benchmark.parquet": (1, ("benchmark.parquet: is a benchmark", "benchmarks import {}/ben")),
    "evaluations import {}/letters.parquet": (1, ("letters.parquet: is a Parquet file", "JSON Lines or CSV", "to_csv")),
    "evaluations import {}/suite.toml": (1, ("suite.toml: is a suite", "suites import {}/suite.toml")),
    "benchmarks import {}/outputs.jsonl --name b": (1, ("outputs.jsonl", "evaluations import {}/outputs.jsonl")),
    "benchmarks import {}/samples.jsonl --name b": (1, ("samples.jsonl", "evaluations import {}/samples.jsonl")),
    "benchmarks import {}/letters.csv --name b": (
        1,
        ("letters.csv: is a table of letters", "evaluations import", "--benchmark BENCHMARK"),
    ),
    "benchmarks import {}/model.gguf --name b": (1, ("model.gguf: is a model", "models add NAME --kind gguf")),
    "benchmarks import {}/model --name b": (1, ("model: is a model's weights", "models add NAME --kind huggingface")),
    "suites import {}/board.toml": (1, ("board.toml: is a board", "boards import {}/board.toml")),
    "suites import {}/log.eval": (1, ("log.eval: is a log", "evaluations import {}/log.eval --model MODEL")),
    "boards import {}/suite.toml": (1, ("suite.toml: is a suite", "suites import {}/suite.toml")),
    "boards import {}/protocol.toml": (1, ("protocol.toml: is a protocol", "protocols import {}/protocol.toml")),
    "boards import {}/column.toml": (1, ("'acuracy@cyclic'", "did you mean accuracy")),
    "boards import {}/benchmark.parquet": (1, ("benchmark.parquet: is a benchmark", "benchmarks import {}/benchmark")),
    "protocols import {}/suite.toml": (1, ("suite.toml: is a suite", "suites import {}/suite.toml")),
    "db restore {}/benchmark.jsonl": (1, ("benchmark.jsonl: is a benchmark", "benchmarks import {}/benchmark.jsonl")),
    "benchmarks import {}/registry.db --name b": (1, ("registry.db: is a database", "db restore {}/registry.db")),
    "evaluations import {}/nofile.csv": (1, ("nofile.csv: no such file", "check the path")),
    "benchmarks import {}/nowhere.jsonl --name b": (1, ("nowhere.jsonl: no such file", "check the path")),
    # The file comes before the options that are missing.
    "benchmarks import {}/nowhere.jsonl": (1, ("nowhere.jsonl: no such file", "check the path")),
    "benchmarks import {}/suite.toml": (1, ("suite.toml: is a suite", "suites import {}/suite.toml")),
    "benchmarks import {}/benchmark.jsonl": (2, ("--name is missing", "import {}/benchmark.jsonl --name NAME")),
    "evaluations import https://example.org/log.jsonl": (
        1,
        ("https://example.org/log.jsonl: is an address", "download it first"),
    ),
    "benchmarks import {}/empty.jsonl --name b": (1, ("empty.jsonl: contains no question", "at least one line")),
    "benchmarks import {}/notes.txt --name b": (1, ("notes.txt: unknown kind of file", ".jsonl, .jsonl.gz, .csv")),
}


@pytest.mark.parametrize("typed", WRONG)
def test_a_wrong_command_is_put_right(filled: Registry, files: Path, typed: str) -> None:
    status, expected = WRONG[typed]
    outcome = shuffleboard(*typed.format(files).split(), status=status)
    assert outcome.stdout == ""
    for part in expected:
        assert part.format(files) in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "no evaluation yet" not in outcome.stderr


def test_a_filter_that_nothing_matches_says_what_there_is(filled: Registry) -> None:
    outcome = shuffleboard("leaderboard", "--variants", "full")
    assert "no evaluation matches --variants full; the registry has 2, under the variants cyclic" in outcome.stderr


@pytest.mark.parametrize(
    ("typed", "unlikely"),
    [
        ("leaderboard --sort accuracy", "--as-of"),
        ("evaluations reread 1", "restore"),
        ("models show mistrall", "medalpaca"),
        ("leaderboard --columns acuracy", "brier_score"),
        ("protocols show symbls", "hybrid"),
        ("boards import {}/column.toml", "brier_score"),
    ],
)
def test_only_a_close_name_is_suggested_and_nothing_after_it(
    filled: Registry, files: Path, typed: str, unlikely: str
) -> None:
    outcome = shuffleboard(*typed.format(files).split(), status=None)
    assert outcome.returncode in (1, 2)
    assert unlikely not in outcome.stderr


@pytest.mark.parametrize("typed", WRONG)
def test_at_eighty_columns_the_thing_is_named_on_the_first_line(filled: Registry, files: Path, typed: str) -> None:
    status, expected = WRONG[typed]
    message = shuffleboard(*typed.format(files).split(), status=status, width=80).stderr
    first = message.splitlines()[0]
    assert first.startswith("Error: ")
    assert expected[0].format(files) in first


def test_words_of_other_programs_lead_to_commands() -> None:
    for meant in MEANT.values():
        assert meant == "--help" or meant in COMMANDS


def test_a_group_without_a_command_shows_its_help() -> None:
    assert shuffleboard("suites", status=2).stderr.startswith("Usage: shuffleboard suites")


def test_a_message_names_the_address_of_the_server_that_runs(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert page_address(settings, "/x") == "http://127.0.0.1:8000/x (while `shuffleboard serve` runs)"
    with announce(settings, "http://127.0.0.1:8400"):
        assert page_address(settings, "/x") == "http://127.0.0.1:8400/x"
    assert page_address(settings, "/x").startswith("http://127.0.0.1:8000/")
    (tmp_path / "serving.json").write_text('{"address": "http://127.0.0.1:1", "pid": 4194304}', encoding="utf-8")
    assert page_address(settings, "/x").startswith("http://127.0.0.1:8000/")
    assert page_address(Settings(home=tmp_path, public_url="https://b.org/"), "/x") == "https://b.org/x"


READ = [
    "accounts add a --role reader --password-file {}",
    "apply {}",
    "audit {}",
    "benchmarks fetch {}.toml",
    "benchmarks import {} --name b",
    "benchmarks import registry/benchmarks/samples/mmlu.jsonl --name b --fewshot {}",
    "boards import {}",
    "db restore {}",
    "db roles --passwords {}",
    "evaluations import {}",
    "evaluations import {}.jsonl.gz --model medalpaca-7b --benchmark b --variants imported",
    "leaderboard --variants wording:file={}.toml",
    "protocols import {}",
    "protocols read symbols {}",
    "ranks {}",
    "suites import {}",
    "verify --public {} .",
]
"""Every command that reads a file, with file names whose endings choose the reader."""


@pytest.mark.parametrize("typed", READ)
def test_a_pipe_a_device_and_a_socket_are_refused_unread(filled: Registry, tmp_path: Path, typed: str) -> None:
    end = re.search(r"\{\}(\S*)", typed)
    assert end is not None
    makers: dict[str, Callable[[Path], None]] = {
        "pipe": os.mkfifo,
        "device": lambda path: path.symlink_to("/dev/zero"),
        "socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    }
    for name, make in makers.items():
        path = tmp_path / name
        make(path.with_name(name + end[1]))
        outcome = shuffleboard(*typed.replace("{}", str(path)).split(), status=None)
        assert outcome.returncode in (1, 2)
        assert "is a pipe, a device or a socket; write what it gives to a file" in " ".join(
            (outcome.stdout + outcome.stderr).split()
        )


def test_every_path_that_a_command_reads_refuses_pipes() -> None:
    written = {"to", "out", "to_folder", "dataset", "page", "from_folder", "audit paths"}
    written |= {"db backup file", "benchmarks import include_path"}
    unguarded = {
        f"{name} {param.name}"
        for name, command in COMMANDS.items()
        for param in command.params
        if isinstance(param.type, click.Path | click.File)
        and not isinstance(param.type, GivenFile)
        and not {param.name, f"{name} {param.name}"} & written
    }
    assert not unguarded
