"""Tables, which fit the terminal without losing a number, and are plain and complete in a pipe."""

import json
import re
from textwrap import dedent

import click
import pytest

from registry.errors import IngestError
from shuffleboard.cli.tables import Detailed, print_table, shorten
from tests.docs.pages import generator
from tests.outputs.conftest import Registry
from tests.support.commands import shuffleboard
from tests.terminal.conftest import BENCHMARK, LONG, MODELS

ALIKE = [f"Meta-Llama-{version}-{size}B-Instruct" for version in ("3", "3.1") for size in (8, 70, 405)]
WIDTHS = (60, 80, 120)
HEADINGS = {"model": "Model", "accuracy": "Accuracy", "score": "Mean score", "state": "State"}
ROWS = [
    {"model": LONG, "accuracy": 0.123456, "score": Detailed("0.5", "[0.4, 0.6]"), "state": "complete"},
    {"model": "b", "accuracy": None, "score": Detailed("0.25", "[0.2, 0.3]"), "state": "queued"},
]


def draw(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int | None, **how: object) -> str:
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table(ROWS, HEADINGS, "nothing", **how)  # type: ignore[arg-type]
    return click.unstyle(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            None,
            """\
    Model                                        Accuracy       Mean score  State
    Mistral-7B-Instruct-v0.3-with-a-long-suffix     0.123   0.5 [0.4, 0.6]  complete
    b                                                   –  0.25 [0.2, 0.3]  queued
""",
        ),
        (
            60,
            """\
                                                  Mean
    Model                    Accuracy            score  State
    Mistral-7B-…long-suffix     0.123   0.5 [0.4, 0.6]  complete
    b                               –  0.25 [0.2, 0.3]  queued
""",
        ),
        (
            46,
            """\
                                    Mean
    Model                Accuracy  score  State
    Mistral-7…ng-suffix     0.123    0.5  complete
    b                           –   0.25  queued
""",
        ),
        (
            38,
            """\
                                      Mean
    Model                  Accuracy  score
    Mistral-7B…ong-suffix     0.123    0.5
    b                             –   0.25
""",
        ),
    ],
)
def test_intervals_go_before_columns_and_names_lose_their_middle(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int | None, expected: str
) -> None:
    assert draw(capsys, monkeypatch, width) == dedent(expected)


@pytest.mark.parametrize("width", [50, 60, 80])
def test_names_that_differ_are_shown_differently(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    rows = [{"model": name, "benchmark": f"{name}-bench", "state": "complete"} for name in ALIKE]
    print_table(rows, {"model": "Model", "benchmark": "Benchmark", "state": "State"}, "nothing")
    lines = click.unstyle(capsys.readouterr().out).splitlines()[1:]
    assert len({line.split("  ")[0] for line in lines}) == len(ALIKE)
    assert max(map(len, lines)) <= width


def test_an_evaluation_says_which_model_was_asked_what_and_how(filled: Registry) -> None:
    listed = shuffleboard("evaluations", "list", "--columns", "evaluation", width=80).stdout.split()
    shown = shuffleboard("evaluations", "show", listed[-1]).stdout
    for key, value in {"model": f"{LONG}@1", "protocol": "symbols", "variants": "cyclic"}.items():
        assert re.search(rf"^{key} +{re.escape(value)}$", shown, re.MULTILINE)
    assert BENCHMARK in shown


def test_empty_columns_are_dropped_before_names_are_shortened(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    rows = [{"model": LONG, "licence": None, "url": None, "drawn": "  ●"}]
    print_table(rows, {"model": "Model", "licence": "Licence", "url": "Address", "drawn": "0  100"}, "nothing")
    printed = capsys.readouterr()
    assert click.unstyle(printed.out).splitlines() == [f"{'Model':45}0  100", f"{LONG}    ●"]
    assert printed.err.startswith("not shown for lack of room: licence, url;")


def test_columns_leave_in_the_order_of_their_priority(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert draw(capsys, monkeypatch, 30, drop=("accuracy", "state")).split()[:3] == ["Mean", "Model", "score"]


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("Mistral-7B-Instruct", 19, "Mistral-7B-Instruct"),
        ("Mistral-7B-Instruct", 9, "Mist…ruct"),
        ("Mistral-7B-Instruct", 8, "Mist…uct"),
        ("模型模型模型", 9, "模型…模型"),
    ],
)
def test_a_name_is_shortened_in_the_middle(text: str, width: int, expected: str) -> None:
    assert shorten(text, width) == expected


def test_a_name_cannot_write_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([{"name": "a\x1b[31m\nb"}], {"name": "Name"}, "")
    assert capsys.readouterr().out == "Name\na [31m b\n"
    assert str(IngestError("a\x1b[31m\u202eb")) == "a\\u001b[31m\\u202eb"


TABLES = [
    ("leaderboard",),
    ("evaluations", "list"),
    ("models", "list"),
    ("benchmarks", "list"),
    ("boards", "list"),
    ("boards", "show", "main"),
    ("boards", "snapshots", "main"),
    ("suites", "list"),
    ("suites", "show", "one"),
    ("protocols", "list"),
    ("published", "list", "--paper", "gupta"),
    ("statistics", "compare", "1", "2"),
    ("statistics", "guessing", "--variants", "4", "--options", "4"),
    ("statistics", "power", "--questions", "1000", "--difference", "0.02"),
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("command", TABLES, ids=" ".join)
def test_a_command_prints_a_table_of_this_width(filled: Registry, command: tuple[str, ...], width: int) -> None:
    table = click.unstyle(shuffleboard(*command, width=width).stdout)
    lines = [line for line in table.splitlines() if not line.startswith(("first:", "second:", "right by"))]
    assert max(map(len, lines)) <= width
    # Every number is in the whole table, too.
    output = shuffleboard(*command).stdout
    numbers = r"(?<![\w.…-])\d+(?:\.\d+)?(?![\w.…-])"
    assert set(re.findall(numbers, table)) <= set(re.findall(numbers, output))
    assert not re.search(r"\d\.\d*…|…\d*\.\d{3}", table)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_leaderboard_keeps_what_it_is_about(filled: Registry, width: int) -> None:
    table = click.unstyle(shuffleboard("leaderboard", width=width).stdout)
    assert BENCHMARK in table
    rows = {line.split()[0]: line.split()[1:] for line in table.splitlines() if re.match("Mistral|medalpaca", line)}
    assert [name[:8] for name in rows] == ["medalpac", "Mistral-"]
    assert {"50.0", "75.0"} <= set(rows["medalpaca-7b"])  # right in two orders, accuracy


def test_a_pipe_gets_everything(filled: Registry) -> None:
    heading, *rows = shuffleboard("leaderboard").stdout.splitlines()
    assert "Right in two orders" in heading
    assert "State" in heading
    assert all(any(model in row for row in rows) for model in MODELS)
    assert shuffleboard("leaderboard", "--wide", width=60).stdout.count(LONG) == 1


def test_columns_are_chosen_by_name_also_of_csv(filled: Registry) -> None:
    arguments = ("leaderboard", "--columns", "model,best_accuracy,family", "--model", "medalpaca-7b")
    heading, row = shuffleboard(*arguments).stdout.splitlines()
    assert (heading.split()[0], heading.split()[-1], row.split()) == (
        "Model",
        "family",
        ["medalpaca-7b", "75.0", "%", "–"],
    )
    assert shuffleboard(*arguments, "--csv").stdout == "model,best_accuracy,family\nmedalpaca-7b,0.75,\n"
    named = shuffleboard("leaderboard", "--columns", "model,strong_accuracy", "--model", "medalpaca-7b", "--csv")
    assert named.stdout.splitlines()[0] == "model,strong_accuracy"


def test_every_command_with_a_list_lets_its_columns_be_chosen() -> None:
    lists = {" ".join(words): command for words, command in generator().commands() if words and words[-1] == "list"}
    offered = {
        name: {option for parameter in command.params for option in parameter.opts} for name, command in lists.items()
    }
    assert {name for name, options in offered.items() if not options & {"--columns", "--wide"}} == set()


@pytest.mark.parametrize(
    ("command", "ids"),
    [
        (("--model", "medalpaca-7b"), [2]),
        (("--variants", "cyclic", "--benchmark", BENCHMARK), [2, 1]),
        (("--state", "complete", "--limit", "1"), [2]),
        (("--state", "failed"), []),
        (("--protocol", "cloze"), []),
    ],
)
def test_evaluations_are_listed_by_what_they_are_of(filled: Registry, command: tuple[str, ...], ids: list[int]) -> None:
    listed = json.loads(shuffleboard("evaluations", "list", *command, "--json").stdout)["evaluations"]
    assert [row["evaluation"] for row in listed] == ids


@pytest.mark.parametrize(
    ("command", "key", "value"),
    [
        (("models", "list"), "name", LONG),
        (("benchmarks", "list"), "name", BENCHMARK),
        (("protocols", "list"), "name", "symbols"),
        (("boards", "list"), "name", "main"),
        (("evaluations", "list"), "evaluation", 2),
    ],
)
def test_a_list_names_its_things_the_same_way(
    filled: Registry, command: tuple[str, ...], key: str, value: object
) -> None:
    (rows,) = json.loads(shuffleboard(*command, "--json").stdout).values()
    assert value in [row[key] for row in rows]


def test_a_boards_numbers_are_numbers(filled: Registry) -> None:
    assert json.loads(shuffleboard("boards", "show", "main", "--json").stdout)["bootstrap"]["confidence"] == 0.95
