"""The list docs/third-party.toml of all third-party files in the repository, with their digests and licences."""

import hashlib
import re
import tomllib
from typing import Any

import pytest

from tests.support.commands import ROOT

LISTED: dict[str, list[dict[str, Any]]] = tomllib.loads((ROOT / "docs/third-party.toml").read_text(encoding="utf-8"))
FOLDERS = ("web/static/vendor", "web/publishing/static/vendor", "docs/_static/vendor", "tests/web/vendor")
DATA = {
    "registry/benchmarks/samples": "*.jsonl",
    "registry/benchmarks/recipes": "*.jsonl",
    "shuffleboard/recorded": "*.gz",
}
LICENCES = {"MIT": "MIT|Permission is hereby granted", "Apache-2.0": "Apache", "BSD-3-Clause": "Redistribution and use"}
LICENCES |= {"MPL-2.0": "Mozilla Public License", "MIT AND Apache-2.0": "MIT(.|\n)*Apache"}


@pytest.mark.parametrize("file", LISTED["file"], ids=lambda file: file["path"])
def test_a_file_of_others_is_the_one_that_is_listed(file: dict[str, Any]) -> None:
    assert hashlib.sha256((ROOT / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    assert file["use"]
    assert set(file["parts"]) <= {part["name"] for part in LISTED["part"]}


def test_every_file_of_others_is_listed() -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).iterdir()
        if not path.name.startswith(("README", "LICENSE"))
    }
    files |= {path.relative_to(ROOT).as_posix() for folder, form in DATA.items() for path in (ROOT / folder).glob(form)}
    assert {file["path"] for file in LISTED["file"]} == files


def test_everything_of_others_has_the_text_of_its_licence() -> None:
    used = {name for file in LISTED["file"] for name in file["parts"]}
    assert [part["name"] for part in LISTED["part"] if part["name"] not in used] == []
    for part in LISTED["part"]:
        text = (ROOT / part["text"]).read_text(encoding="utf-8")
        assert re.search(LICENCES[part["licence"]], text), part["name"]
        assert re.fullmatch(r"npm|github:[\w.-]+/[\w.-]+", part["source"])
        assert re.fullmatch(r"\d+\.\d+\.\d+|[0-9a-f]{40}|\d{4}", part["version"])
    texts = {part["text"] for part in LISTED["part"]}
    for folder in FOLDERS:
        licences = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("LICENSE*")}
        assert licences - texts <= {"tests/web/vendor/LICENSE-axe-core-3RD-PARTY.txt"}  # of parts of that script
