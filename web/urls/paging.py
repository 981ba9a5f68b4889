"""The position of a page in its list."""

from dataclasses import dataclass
from typing import Final

from flask import request

from registry.errors import NotFoundError
from web.urls import parameters

ROWS_PER_PAGE: Final = 100
QUESTIONS_PER_PAGE: Final = 25
MAX_PER_PAGE: Final = 500


@dataclass(frozen=True)
class Paging:
    """The position of a page in its list."""

    page: int
    per_page: int
    total: int

    @property
    def pages(self) -> int:
        """Return the number of pages, at least one."""
        return max(1, -(-self.total // self.per_page))

    @property
    def offset(self) -> int:
        """Return the number of rows before this page."""
        return (self.page - 1) * self.per_page

    @property
    def first(self) -> int:
        """Return the 1-based number of the first row."""
        return min(self.total, self.offset + 1)

    @property
    def last(self) -> int:
        """Return the 1-based number of the last row."""
        return min(self.total, self.offset + self.per_page)


def find_page(total: int, per_page: int, *, asked: tuple[int, int] | None = None) -> Paging:
    """Return the position of the requested page in a list of `total`. Raises NotFoundError beyond its end."""
    page, size = asked or parameters.paging(request.args, per_page=per_page, most=MAX_PER_PAGE)
    paging = Paging(page, size, total)
    if page > paging.pages:
        raise NotFoundError(f"page {page}: there are {paging.pages}; go back to page 1")
    return paging
