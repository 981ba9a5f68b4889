"""Add every metric and keep what is sealed.

Revision: 202611211121. Follows: 202611211043.
"""

import sqlalchemy as sa
from alembic import op

from migrations.frozen import create_triggers, create_views, drop_views

revision = "202611211121"
down_revision = "202611211043"
branch_labels = None
depends_on = None


PROBLEM_SOLVING = (
    "abstract_algebra",
    "college_mathematics",
    "elementary_mathematics",
    "high_school_mathematics",
    "high_school_statistics",
    "college_physics",
    "conceptual_physics",
    "high_school_physics",
    "college_chemistry",
    "high_school_chemistry",
    "college_computer_science",
    "computer_security",
    "high_school_computer_science",
    "machine_learning",
    "electrical_engineering",
    "formal_logic",
)
STATISTICS = (
    "evaluation_id, question_id, expected, stored, original_correct, variants, valid, correct, first_option, agreeing, "
    "equal_pairs, others, others_correct, shown, shown_correct, probability_variants, answer_probability_sum, "
    "brier_score_sum, entropy_sum, accuracy_normalized, npsq_correct, npsq_accuracy, choice_only_accuracy, "
    "choice_sensitivity, choice_sensitivity_normalized"
)
subject_category = sa.table("subject_category", sa.column("category"), sa.column("subject"), sa.column("source"))


def upgrade() -> None:
    drop_views(down_revision)
    op.create_table(
        "subject_category",
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("category", "subject", name=op.f("pk_subject_category")),
    )
    op.create_table(
        "generation",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id", "variant"],
            ["prediction.evaluation_id", "prediction.question_id", "prediction.variant"],
            name=op.f("fk_generation_evaluation_id_question_id_variant"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", "variant", name=op.f("pk_generation")),
    )
    op.add_column(
        "prediction",
        sa.Column("logprobs_without_question", sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite"), nullable=True),
    )
    op.add_column("prediction", sa.Column("accuracy_normalized", sa.Boolean(), nullable=True))
    op.add_column("prediction", sa.Column("npsq_correct", sa.Double(), nullable=True))
    op.add_column("prediction", sa.Column("npsq_accuracy", sa.Boolean(), nullable=True))
    op.add_column("prediction", sa.Column("choice_only_accuracy", sa.Boolean(), nullable=True))
    op.add_column("prediction", sa.Column("choice_sensitivity", sa.Boolean(), nullable=True))
    op.add_column("prediction", sa.Column("choice_sensitivity_normalized", sa.Boolean(), nullable=True))
    op.add_column("question_score", sa.Column("equal_pairs", sa.Integer(), nullable=True))
    op.add_column("question_score", sa.Column("others", sa.SmallInteger(), nullable=True))
    op.add_column("question_score", sa.Column("others_correct", sa.SmallInteger(), nullable=True))
    op.add_column("question_score", sa.Column("shown", sa.SmallInteger(), nullable=True))
    op.add_column("question_score", sa.Column("shown_correct", sa.SmallInteger(), nullable=True))
    op.add_column("question_score", sa.Column("probability_variants", sa.SmallInteger(), nullable=True))
    op.add_column("question_score", sa.Column("answer_probability_sum", sa.Double(), nullable=True))
    op.add_column("question_score", sa.Column("brier_score_sum", sa.Double(), nullable=True))
    op.add_column("question_score", sa.Column("entropy_sum", sa.Double(), nullable=True))
    op.add_column("question_score", sa.Column("accuracy_normalized", sa.Boolean(), nullable=True))
    op.add_column("question_score", sa.Column("npsq_correct", sa.Double(), nullable=True))
    op.add_column("question_score", sa.Column("npsq_accuracy", sa.Boolean(), nullable=True))
    op.add_column("question_score", sa.Column("choice_only_accuracy", sa.Boolean(), nullable=True))
    op.add_column("question_score", sa.Column("choice_sensitivity", sa.Boolean(), nullable=True))
    op.add_column("question_score", sa.Column("choice_sensitivity_normalized", sa.Boolean(), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        op.create_check_constraint(
            op.f("ck_prediction_npsq_correct"), "prediction", "npsq_correct > '-Infinity' AND npsq_correct <= 1"
        )
    op.bulk_insert(
        subject_category,
        [
            {
                "category": "problem-solving",
                "subject": subject,
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            }
            for subject in PROBLEM_SOLVING
        ],
    )
    create_views(revision)
    # What was sealed before gets the new statistics from its predictions, which nothing here changes.
    op.execute("DELETE FROM question_score")
    op.execute(
        f"INSERT INTO question_score ({STATISTICS}) SELECT {STATISTICS} FROM question_statistics "  # noqa: S608
        "WHERE stored > 0"
    )
    create_triggers(revision)
