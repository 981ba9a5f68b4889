"""A benchmark's questions through the models that answered them, as their page and the API state it."""

from typing import Final

from registry.errors import NotFoundError
from registry.lookups import find_version
from registry.schema.selectables import Row
from registry.studies.items import item_document, item_source
from web.serving.cache import OfSealed
from web.serving.responses import session
from web.shown import listings
from web.urls import parameters

_LARGEST: Final = 4
"""Documents that a process keeps: one of 14,000 questions takes 20 MB."""
_documents: OfSealed[Row] = OfSealed(_LARGEST)


def version_of(benchmark: str, wanted: str | None) -> tuple[list[Row], Row]:
    """The versions of a benchmark, newest first, and the one that is wanted, or the newest. Raises NotFoundError."""
    versions = listings.benchmarks(session(), benchmark)
    chosen = next((row for row in versions if wanted in (None, row["version"])), None)
    if chosen is None:
        listed = ", ".join(row["version"] for row in versions)
        raise NotFoundError(f"benchmark {benchmark} has no version {parameters.shorten(str(wanted))}; it has: {listed}")
    return versions, chosen


def item_analysis(version: Row, like: int | None) -> Row:
    """What `registry.studies.items.item_document` says of a version that is seen; the first time may take seconds."""
    found = find_version(session(), f"{version['benchmark']}@{version['version']}")
    source = item_source(session(), found, like)
    return _documents.get(source.key, lambda: item_document(session(), source)) | {
        "way": source.way,
        "ways": list(source.ways),
    }
