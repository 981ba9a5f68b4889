"""Every command of the tutorial, the how-to guides and the pages on papers works as its page states, in order.

Apart from test_commands.py, so that two processes share them.
"""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.code_prose import PACKAGES, python_files
from tests.docs.pages import DOCS, ROOT, blocks, read
from tests.docs.session import Session, list_followed


@pytest.mark.long
@pytest.mark.parametrize(("page", "engine"), list_followed(guides=True))
def test_what_a_guide_shows_can_be_done(page: str, engine: str, follow: Callable[[Path, str], Session]) -> None:
    follow(ROOT / page, engine)


@pytest.mark.parametrize("guide", ["add-a-metric.md", "add-a-variant-kind.md"])
def test_a_metric_or_kind_is_added_in_three_files(guide: str) -> None:
    page = read(DOCS / "how-to" / guide)
    changed = re.findall(r"^\+\+\+ b/(.+)$", page, re.MULTILINE)
    written = re.findall(r"^<!-- file: shuffleboard/(.+) -->$", page, re.MULTILINE)
    assert len({*changed, *(name for name in written if not name.endswith(".diff"))}) <= 3


GUIDES = sorted(page.name for page in (DOCS / "how-to").glob("*.md") if "```diff" in read(page))


@pytest.mark.parametrize("guide", GUIDES)
def test_the_diffs_of_a_guide_apply_to_this_code(guide: str) -> None:
    diffs = [block.text for block in blocks(DOCS / "how-to" / guide) if block.language == "diff"]
    assert diffs
    for diff in diffs:
        text = diff if diff.endswith("\n") else f"{diff}\n"
        command = ["git", "apply", "--check", "-"]
        done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_names_in_recipes_of_changes_are_in_the_code() -> None:
    code = {word for path in python_files(PACKAGES) for word in re.findall(r"\w+", read(path))}
    named = set(re.findall(r"`(_?[A-Z][A-Za-z_]*|_[a-z_]+|[a-z]+_[a-z_]+)`", read(ROOT / "CONTRIBUTING.md")))
    assert len(named) > 20
    assert named - code == set()
