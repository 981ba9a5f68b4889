"""The numbers on the page about published results."""

from sqlalchemy import func, select

from registry.db import get_engine, read_session
from registry.tables import PublishedResult
from tests.docs.pages import DOCS, read


def test_the_page_counts_the_published_results(sqlite_database: str) -> None:
    with read_session(get_engine(sqlite_database)) as session:
        count = session.scalar(select(func.count()).select_from(PublishedResult))
    assert f"{count:,} of them" in read(DOCS / "evidence" / "published-results.md")
