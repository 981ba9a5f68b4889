"""The wheel as pip installs it: next to other packages, without the checkout."""

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from hatch_build import PACKAGES, REVISION, build_of, within_home
from registry import __version__
from tests.support.commands import ROOT, TIMEOUT_S

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the unpacked wheel, which is built with the commit COMMIT."""
    folder = tmp_path_factory.mktemp("wheel")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(REVISION, COMMIT)
        (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the packages of another distribution that have the names of the checkout's top-level packages."""
    folder = tmp_path_factory.mktemp("others")
    for name in PACKAGES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("WHOSE = 'theirs'\n")
    return folder


def run(places: list[Path], *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=home,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places)), "SHUFFLEBOARD_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_the_wheel_has_one_name(installed: Path) -> None:
    assert {path.name for path in installed.iterdir() if path.suffix != ".dist-info"} == {"shuffleboard"}


def test_the_wheel_has_the_recorded_answers_with_their_licences(installed: Path) -> None:
    recorded = ROOT / "shuffleboard" / "recorded"
    shipped = {path.name for path in recorded.iterdir() if path.suffix in (".gz", ".jsonl", ".LICENSE", ".md")}
    assert len(shipped) == 12
    assert shipped <= {path.name for path in (installed / "shuffleboard" / "recorded").iterdir()}


@pytest.mark.long
def test_the_wheel_has_the_same_bytes_wherever_and_whenever_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REVISION, COMMIT)
    copy = tmp_path / "copy"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in (*PACKAGES, "shuffleboard"):
        shutil.copytree(ROOT / name, copy / name, ignore=ignored, copy_function=shutil.copyfile)  # modes, times: new
    for name in ("pyproject.toml", "LICENSE", "README.md", "hatch_build.py"):
        shutil.copyfile(ROOT / name, copy / name)
    for path in copy.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    digests = set()
    for folder in (ROOT, copy):
        (wheel,) = WheelBuilder(str(folder)).build(directory=str(tmp_path / folder.name), versions=["standard"])
        digests.add(hashlib.sha256(Path(wheel).read_bytes()).hexdigest())
    assert len(digests) == 1


def imports_of(page: Path) -> list[str]:
    """Return the imports in a page's Python blocks."""
    imports = []
    for block in re.findall(r"^```python[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        nodes = [node for node in ast.walk(ast.parse(block)) if isinstance(node, (ast.Import, ast.ImportFrom))]
        imports += [
            line for node in nodes if (line := ast.unparse(node)).split()[1].startswith(("shuffleboard", *PACKAGES))
        ]
    return imports


def test_the_documentation_imports_what_the_wheel_has(installed: Path, tmp_path: Path) -> None:
    # The guides for those who change the code are followed in a checkout.
    pages = [
        page
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        if "decisions" not in page.parts and not page.name.startswith("add-a-")
    ]
    imports = sorted({line for page in pages for line in imports_of(page)})
    imports = [line for line in imports if "inspect_extension" not in line]  # needs Inspect AI
    assert len(imports) > 3
    # The environment of the tests has the checkout's names as well.
    assert [line for line in imports if not line.split()[1].startswith("shuffleboard")] == []
    outcome = run([installed], "-c", "\n".join(imports), home=tmp_path)
    assert outcome.returncode == 0, outcome.stderr


def test_the_wheels_names_lead_to_the_same_modules_in_a_checkout() -> None:
    import shuffleboard.registry.errors
    from shuffleboard.registry.metrics.cora import consistency_index

    import registry.errors
    import registry.metrics.cora

    assert shuffleboard.registry.errors.UsageError is registry.errors.UsageError
    assert consistency_index is registry.metrics.cora.consistency_index
    assert registry.errors.__spec__ is not None
    assert registry.errors.__spec__.name == "registry.errors"


ORDERS = [
    "from shuffleboard import Client; import registry, workers, web, migrations",
    "import registry, workers, web, migrations; from shuffleboard import Client",
]


@pytest.mark.parametrize("imports", ORDERS, ids=["client-first", "theirs-first"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_the_client_lives_beside_other_packages_of_these_names(
    installed: Path, others: Path, tmp_path: Path, imports: str, first: str
) -> None:
    places = [installed, others] if first == "ours" else [others, installed]
    script = f"{imports}\nprint(Client.__module__, *(m.WHOSE for m in (registry, workers, web, migrations)))"
    outcome = run(places, "-c", script, home=tmp_path)
    assert outcome.stdout.split() == ["shuffleboard.client", *["theirs"] * len(PACKAGES)], outcome.stderr


@pytest.mark.long
def test_the_command_line_works_next_to_other_packages_of_these_names(
    installed: Path, others: Path, tmp_path: Path
) -> None:
    script = """
from shuffleboard.cli import cli
from shuffleboard.registry.code_identity import code_version
from shuffleboard.registry.settings import get_settings
from shuffleboard.registry.db import get_engine
from shuffleboard.registry.sql import Queries
from shuffleboard.web import create_app

for command in ("db upgrade", "benchmarks generate nonsenseqa --name drawn --questions 5", "worker beat --once", "suites list --json"):
    print("answers:")
    cli.main(command.split(), standalone_mode=False)
print("answers:")
settings = get_settings()
queries = Queries(get_engine(settings.resolve_database_url()), settings)
print(queries.ask("public", "SELECT * FROM leaderboard", "me").result.rows)
print(create_app(get_settings()).test_client().get("/").status_code)
print(code_version())
"""
    outcome = run([others, installed], "-c", script, home=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    *_, suites, pages = outcome.stdout.split("answers:")
    assert json.loads(suites)["suites"], "suites that ship come with the wheel"
    assert pages.split() == ["()", "200", f"{__version__}+{COMMIT[:12]}"]


def test_celery_finds_the_application_of_the_wheel(installed: Path, others: Path, tmp_path: Path) -> None:
    outcome = run([others, installed], "-m", "celery", "-A", "shuffleboard.workers.celery", "status", home=tmp_path)
    assert "set SHUFFLEBOARD_BROKER_URL" in outcome.stderr


@pytest.mark.long
def test_a_source_archive_names_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REVISION, f"{COMMIT}-dirty")
    (archive,) = SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    subprocess.run(["tar", "-xzf", archive, "--strip-components=1", "-C", tmp_path], check=True)
    monkeypatch.delenv(REVISION)
    # The build of a wheel from that archive.
    assert build_of(tmp_path) == {"commit": COMMIT, "dirty": True}


def test_a_checkout_says_its_commit_and_whether_it_was_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "One.")
    commit = git("rev-parse", "HEAD")
    assert build_of(tmp_path) == {"commit": commit, "dirty": False}
    (tmp_path / "file").write_text("2")
    assert build_of(tmp_path) == {"commit": commit, "dirty": True}


def test_a_build_without_checkout_says_that_it_does_not_know(tmp_path: Path) -> None:
    assert build_of(tmp_path) == {"commit": None, "dirty": None}


@pytest.mark.parametrize(
    ("written", "in_the_wheel"),
    [
        ("from registry.db import x", "from shuffleboard.registry.db import x"),
        ("    from web import (\n    a,\n)", "    from shuffleboard.web import (\n    a,\n)"),
        ("import migrations", "import shuffleboard.migrations; from shuffleboard import migrations"),
        ("import registry.db as db", "import shuffleboard.registry.db as db"),
        ("from shuffleboard.cli import main", "from shuffleboard.cli import main"),
        ("from registryish import x", "from registryish import x"),
        ("text = 'from registry.db import x'", "text = 'from registry.db import x'"),
    ],
)
def test_imports_are_written_as_the_wheel_calls_them(written: str, in_the_wheel: str) -> None:
    wrap = "if True:\n{}\n" if written.startswith(" ") else "{}\n"
    assert within_home(wrap.format(written)) == wrap.format(in_the_wheel)
