"""Every command of the tutorial, the how-to guides and the pages on papers does what its page says, in order.

Apart from test_commands.py, so that two processes share them.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, read
from tests.docs.session import Session, followed


@pytest.mark.long
@pytest.mark.parametrize(("page", "engine"), followed(guides=True))
def test_what_a_guide_shows_can_be_done(page: str, engine: str, follow: Callable[[Path, str], Session]) -> None:
    follow(ROOT / page, engine)


@pytest.mark.parametrize("guide", ["add-a-metric.md", "add-a-variant-kind.md"])
def test_a_metric_or_kind_is_added_in_three_files(guide: str) -> None:
    page = read(DOCS / "how-to" / guide)
    changed = re.findall(r"^\+\+\+ b/(.+)$", page, re.MULTILINE)
    written = re.findall(r"^<!-- file: shuffleboard/(.+) -->$", page, re.MULTILINE)
    assert len({*changed, *(name for name in written if not name.endswith(".diff"))}) <= 3
