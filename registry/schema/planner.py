"""What PostgreSQL is told of the tables, so that it plans well."""

from typing import Final

ANALYZE: Final = (
    "ANALYZE public.evaluation, public.benchmark_version, public.question, public.evaluation_question, "
    "public.prediction (evaluation_id, question_id, variant), public.question_score (evaluation_id, question_id), "
    "public.question_seal (evaluation_id, question_id)"
)
"""Of a prediction only the columns that joins meet: its arrays take five times as long, and no plan rests on them.
Autovacuum passes by tables of fewer than fifty rows, so a registry of a few large evaluations has nobody else to count
them: PostgreSQL takes two benchmark versions for some hundred, and an evaluation for a hundredth of what it is.
"""
