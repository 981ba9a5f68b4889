"""Every command of the tutorial, the how-to guides and the pages on papers does what its page says, in order.

Apart from test_commands.py, so that two processes share them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.session import Session, followed


@pytest.mark.parametrize(("page", "engine"), followed(guides=True))
def test_what_a_guide_shows_can_be_done(page: str, engine: str, follow: Callable[[Path, str], Session]) -> None:
    follow(ROOT / page, engine)
