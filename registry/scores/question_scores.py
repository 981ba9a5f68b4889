"""Question scores: sufficient statistics of each question, copied from their view when its predictions are stored."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.tables import QuestionScore

_COLUMNS = ", ".join(QuestionScore.__table__.columns.keys())


def write_question_scores(session: Session, evaluation_id: int, shard_id: int | None = None) -> None:
    """Copy the rows of `question_statistics` for questions with predictions: of one shard, or of all.

    Reading the copy costs a twentieth of aggregating the predictions, on every page and for every metric.
    """
    of_shard = ""
    if shard_id is not None:
        of_shard = "AND question_id IN (SELECT question_id FROM evaluation_question WHERE shard_id = :shard_id) "
    session.execute(
        text(
            f"INSERT INTO question_score ({_COLUMNS}) SELECT {_COLUMNS} FROM question_statistics "  # noqa: S608
            f"WHERE evaluation_id = :evaluation_id {of_shard}AND stored > 0"
        ),
        {"evaluation_id": evaluation_id, "shard_id": shard_id},
    )
