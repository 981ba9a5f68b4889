"""Say how questions were asked.

Revision: 202611220709. Follows: 202611220704.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611220709"
down_revision = "202611220704"
branch_labels = None
depends_on = None


# Of what is stored already, as the view question_statistics and sealing say it from here on.
DISTINCT_PROMPTS = """
UPDATE question_score SET distinct_prompts = (
    SELECT count(
        DISTINCT CASE
            WHEN prediction.question_shown
                THEN CAST(prediction.shown AS text) || CASE
                    WHEN variant_set.kind = 'relabel' THEN CAST(prediction.variant AS text)
                    WHEN variant_set.kind <> 'answer-moving' AND prediction.unchanged THEN '='
                    ELSE ''
                END
        END
    )
    FROM prediction
    JOIN evaluation ON evaluation.id = prediction.evaluation_id
    JOIN variant_set ON variant_set.id = evaluation.variant_set_id
    WHERE
        prediction.evaluation_id = question_score.evaluation_id
        AND prediction.question_id = question_score.question_id
)
"""
ASKED = """
UPDATE evaluation SET
    distinct_prompts_min = (
        SELECT min(score.distinct_prompts) FROM question_score AS score WHERE score.evaluation_id = evaluation.id
    ),
    distinct_prompts_max = (
        SELECT max(score.distinct_prompts) FROM question_score AS score WHERE score.evaluation_id = evaluation.id
    ),
    variants_max = (SELECT max(score.shown) FROM question_score AS score WHERE score.evaluation_id = evaluation.id),
    orders_only = (
        NOT EXISTS (
            SELECT 1
            FROM question_score AS score
            WHERE score.evaluation_id = evaluation.id AND score.variants <> score.shown
        )
        AND variant_set_id NOT IN (SELECT variant_set.id FROM variant_set WHERE variant_set.kind = 'relabel')
    ),
    chance = (
        SELECT avg(CAST(1.0 AS double precision) / question.n_options)
        FROM evaluation_question
        JOIN question ON question.id = evaluation_question.question_id
        WHERE evaluation_question.evaluation_id = evaluation.id
    )
WHERE seal IS NOT NULL
"""


def upgrade() -> None:
    frozen.drop(down_revision)
    op.add_column("evaluation", sa.Column("distinct_prompts_min", sa.SmallInteger(), nullable=True))
    op.add_column("evaluation", sa.Column("distinct_prompts_max", sa.SmallInteger(), nullable=True))
    op.add_column("evaluation", sa.Column("variants_max", sa.SmallInteger(), nullable=True))
    op.add_column("evaluation", sa.Column("orders_only", sa.Boolean(), nullable=True))
    op.add_column("evaluation", sa.Column("chance", sa.Double(), nullable=True))
    op.add_column("question_score", sa.Column("distinct_prompts", sa.SmallInteger(), nullable=True))
    op.execute(DISTINCT_PROMPTS)
    op.execute(ASKED)
    frozen.create(revision)
