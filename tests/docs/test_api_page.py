"""The examples of docs/api.md answer, asked of a server that listens."""

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from registry.db import get_engine
from tests.docs.conftest import fill
from tests.docs.pages import DOCS, ROOT, Block, blocks
from web import create_app

PAGE = DOCS / "api.md"
WRITTEN = "http://127.0.0.1:8000"


@pytest.fixture
def address(sqlite_database: str, tmp_path: Path) -> Iterator[str]:
    """Where a registry with the documentation's own examples listens."""
    fill(get_engine(sqlite_database), tmp_path)
    server = make_server("127.0.0.1", 0, create_app(database_url=sqlite_database), threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def curl_folder(folder: Path) -> Path:
    """A folder with a `curl` command: the system's, else one that does as much of it as the examples need."""
    tools = folder / "bin"
    tools.mkdir()
    found = shutil.which("curl")
    if found is not None:
        (tools / "curl").symlink_to(found)
        return tools
    (tools / "curl").write_text(
        f"#!{sys.executable}\n"
        "import sys, urllib.error, urllib.request\n"
        "try:\n"
        "    print(urllib.request.urlopen(sys.argv[-1]).read().decode())\n"
        "except urllib.error.HTTPError as error:\n"
        "    print(error.read().decode())\n",
        encoding="utf-8",
    )
    (tools / "curl").chmod(0o755)
    return tools


def test_curl_examples_answer(address: str, tmp_path: Path) -> None:
    tools = curl_folder(tmp_path)
    answers = {}
    for block in blocks(PAGE, "sh"):
        for line in block.text.splitlines():
            done = subprocess.run(
                ["bash", "-c", f"PATH={tools}:$PATH; {line.replace(WRITTEN, address)}"],
                capture_output=True,
                text=True,
                check=True,
            )
            answers[line] = json.loads(done.stdout)
    models, board, evaluation, predictions, problem = answers.values()
    assert {item["model"] for item in models["items"]} == {"their-model", "another-model"}
    assert [row["worst_accuracy"] for row in board["rows"]] == [pytest.approx(2 / 3)] * 2
    assert evaluation["evaluation_id"] == 1
    assert len(predictions["items"]) == 2
    assert predictions["next"] is not None
    assert problem["status"] == 400
    assert problem["detail"].startswith("sort='luck': use one of")


@pytest.mark.parametrize("block", blocks(PAGE, "python"), ids=["client"])
def test_python_examples_run(block: Block, address: str) -> None:
    program = block.text.replace(WRITTEN, address)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "1 their-model 0.66" in done.stdout
    assert "wrong answers, sealed as" in done.stdout
