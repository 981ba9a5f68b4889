"""The installation page, followed with pip in an empty environment, which requires an index."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from registry.packages import _requirements
from tests.audit.logs import clean, write_harness
from tests.docs.pages import DOCS, ROOT, blocks, read
from tests.docs.session import Servers, Session
from tests.support.commands import TIMEOUT_S

INSTALL_S = 1200.0


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel and the packages that pip installs with it."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    subprocess.run([sys.executable, "-m", "venv", str(folder / "new")], check=True)
    python = folder / "new" / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), wheel]
    subprocess.run(command, check=True, timeout=INSTALL_S)
    return folder / "new"


def cut_before(page: Path, heading: str, to: Path) -> Path:
    """Return a copy of a page that ends before a heading."""
    text = read(page)
    assert heading in text
    to.write_text(text[: text.index(heading)], encoding="utf-8")
    return to


@pytest.mark.long
def test_the_readme_works_after_a_plain_installation(
    environment: Path,
    page_servers: Servers,
    sqlite_template: Path,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    python = environment / "bin" / "python"
    session = Session(
        page=cut_before(ROOT / "README.md", "## Ask a model", tmp_path / "README.md"),
        folder=tmp_path / "reader",
        engine_name="sqlite",
        servers=replace(page_servers, programs=(python.parent, *page_servers.programs), python=python),
        sqlite_template=sqlite_template,
        fixture=request.getfixturevalue,
        private=tmp_path / "private",
    )
    try:
        session.follow()
    finally:
        session.close()


def commands_of(page: Path) -> list[str]:
    """Return the commands in a page's blocks that start with the program's name, one line each."""
    lines = [
        line
        for block in blocks(page)
        if block.language == "sh"
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    # No server remains: the address is not this machine's, which is refused after everything is loaded.
    return [
        line.replace("shuffleboard serve", "shuffleboard serve --host 192.0.2.1")
        for line in lines
        if line.startswith("shuffleboard ")
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_a_command_that_needs_torch_says_so_in_one_line(name: str, environment: Path, tmp_path: Path) -> None:
    for block in blocks(ROOT / name):
        for comment in block.comments:
            if comment.startswith("file: "):
                (tmp_path / comment.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
    variables = os.environ | {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "SHUFFLEBOARD_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "1",
    }
    seen = []
    for command in commands_of(ROOT / name):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        seen.append(done)
        assert "Traceback" not in done.stderr, f"{command}: {done.stderr}"
        if done.returncode:
            assert done.stderr.rstrip().splitlines()[-1].startswith("Error: "), f"{command}: {done.stderr}"
    assert seen[0].returncode == 0


# Audits only


WITHOUT_OTHERS = """
import sys
from importlib.machinery import PathFinder

kept = set(sys.argv.pop(1).split(","))

class Only(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = PathFinder.find_spec(name, path, target)
        places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
        hidden = name.partition(".")[0] not in kept and any("site-packages" in str(place) for place in places)
        return None if hidden else spec

sys.meta_path[sys.meta_path.index(PathFinder)] = Only
from shuffleboard import metrics
from shuffleboard.cli import main

assert metrics.compute([[1, 1]], [1])["accuracy"] == 1.0
main()
"""


def closure(names: list[str]) -> set[str]:
    """Return the names of the distributions that pip installs for these names."""
    closed: set[str] = set()
    ahead = [canonicalize_name(name) for name in names]
    while ahead:
        name = ahead.pop()
        if name in closed:
            continue
        closed.add(name)
        for line in metadata.requires(name) or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                ahead.append(canonicalize_name(requirement.name))
    return closed


def test_audits_need_only_the_packages_that_the_page_lists(tmp_path: Path) -> None:
    (block,) = (block.text for block in blocks(DOCS / "installation.md") if "--no-deps" in block.text)
    listed = block.splitlines()[-1].removeprefix("pip install ").split()
    assert set(listed) <= {name for name, _, extra in _requirements() if extra is None}
    kept = closure(listed)
    tops = {
        module
        for module, owners in metadata.packages_distributions().items()
        if {canonicalize_name(owner) for owner in owners} & kept
    }
    assert not tops & {"sqlalchemy", "flask", "pandas", "pyarrow", "httpx2"}
    write_harness(clean(1), tmp_path / "logs")
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT_OTHERS,
            ",".join(tops),
            "audit",
            "logs",
            "--json",
            "--fail-on",
            "never",
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["logs"][0]["answers"] == 120
