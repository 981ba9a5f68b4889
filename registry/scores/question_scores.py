"""Question scores: sufficient statistics of each question, copied from their view when its predictions are stored."""

from sqlalchemy import text
from sqlalchemy.orm import Session

from registry.tables import QuestionScore

_COLUMNS = ", ".join(QuestionScore.__table__.columns.keys())


def write_question_scores(
    session: Session, evaluation_id: int, shard_id: int | None = None, *, again: bool = False
) -> None:
    """Copies the rows of `question_statistics` for questions with predictions: of one shard, or of all.

    again: they may have rows already, from an earlier round.
    Reading the copy costs a twentieth of aggregating the predictions, on every page and for every metric.
    """
    of_shard = ""
    if shard_id is not None:
        of_shard = "AND question_id IN (SELECT question_id FROM evaluation_question WHERE shard_id = :shard_id) "
    given = {"evaluation_id": evaluation_id, "shard_id": shard_id}
    if again:
        session.execute(text(f"DELETE FROM question_score WHERE evaluation_id = :evaluation_id {of_shard}"), given)  # noqa: S608
    session.execute(
        text(
            f"INSERT INTO question_score ({_COLUMNS}) SELECT {_COLUMNS} FROM question_statistics "  # noqa: S608
            f"WHERE evaluation_id = :evaluation_id {of_shard}AND stored > 0"
        ),
        given,
    )
