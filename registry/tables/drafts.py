"""The table of answers in shards that are still in progress."""

from typing import Any

from sqlalchemy import ForeignKeyConstraint, SmallInteger
from sqlalchemy.orm import Mapped, mapped_column

from registry.db import Base, Digest, JsonDocument, RowId


class Draft(Base):
    """A model's answer to one prompt of a shard in progress.

    `fingerprint`: digest of the engine that wrote it; other engines do not use it. `written`: the text, a separate
    thought, the reason why it ended, tokens and seconds.
    """

    __tablename__ = "draft"
    __table_args__ = (
        ForeignKeyConstraint(
            ["evaluation_id", "question_id"], ["evaluation_question.evaluation_id", "evaluation_question.question_id"]
        ),
    )

    evaluation_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    question_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    variant: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    fingerprint: Mapped[str] = mapped_column(Digest)
    written: Mapped[Any] = mapped_column(JsonDocument)
