"""The documented views on a published site's SQL page, over the site's files."""

from collections.abc import Sequence
from typing import Any, Final

from registry.exchange.exports.relations import RELATIONS
from registry.predictions.archive_files import no_rows
from registry.schema.views import read_by, view_sql
from registry.sql.relations import ACROSS, OF_EVALUATION, PREDICTIONS, TABLES, small_views, views

FILES: Final = tuple(name for name in (*OF_EVALUATION, *small_views(), *TABLES) if name not in ACROSS)
"""Relations that the site has as files, for its views."""
MORE: Final = tuple(name for name, relation in RELATIONS.items() if relation.view is None)
"""Relations of an export that are not documented views; the site has them, too."""


def answers_of(evaluation_id: int) -> str:
    """Return the name of the table for an evaluation's file of predictions."""
    return f"answers_{evaluation_id}"


def make_queries(evaluations: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Map view → its SELECT, and the tables and views that the SELECT names."""
    answers = {answers_of(number): number for number in evaluations}
    each = [f"SELECT {number}::BIGINT AS evaluation_id, * FROM {file}" for file, number in answers.items()]  # noqa: S608
    # By name, since folders from an older release lack newer columns.
    each.append(no_rows())
    texts = {
        PREDICTIONS: " UNION ALL BY NAME ".join(each),
        **views(),
        **{name: view_sql(name, "postgresql") for name in ACROSS},
    }
    names = {*FILES, *answers, *texts}
    return {
        name: {"sql": text, "needs": sorted(names.intersection(read_by(text)) - {name})} for name, text in texts.items()
    }
