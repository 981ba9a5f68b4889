"""Every command of the reference pages does as its page states, in the order of a reader.

tests/docs/session.py lists the comments for the tests. The other pages: test_guides.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.session import Session, list_followed


@pytest.mark.parametrize(
    ("page", "engine"),
    [
        pytest.param(page, engine, marks=() if page == "README.md" else pytest.mark.long)
        for page, engine in list_followed(guides=False)
    ],
)
def test_what_a_page_shows_can_be_done(page: str, engine: str, follow: Callable[[Path, str], Session]) -> None:
    follow(ROOT / page, engine)
