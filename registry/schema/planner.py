"""What PostgreSQL is told of the tables, so that it plans well."""

from typing import Final

ANALYZE: Final = (
    "ANALYZE public.question, public.evaluation_question, public.prediction (evaluation_id, question_id, variant), "
    "public.question_score (evaluation_id, question_id)"
)
"""Of a prediction only the columns that joins meet: its arrays take five times as long, and no plan rests on them."""
