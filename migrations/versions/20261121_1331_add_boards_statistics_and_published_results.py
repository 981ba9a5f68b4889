"""Add boards, statistics and published results.

Revision: 202611211331. Follows: 202611211121.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.frozen import create_triggers, create_views, drop_triggers, drop_views

revision = "202611211331"
down_revision = "202611211121"
branch_labels = None
depends_on = None


def upgrade() -> None:
    drop_triggers(down_revision)
    drop_views(down_revision)
    op.create_table(
        "published_result",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("paper", sa.Text(), nullable=False),
        sa.Column("paper_table", sa.Text(), nullable=False),
        sa.Column("section", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("benchmark", sa.Text(), nullable=True),
        sa.Column("protocol", sa.Text(), nullable=True),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("printed", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("standard_deviation", sa.Double(), nullable=True),
        sa.Column("registry_metric", sa.Text(), nullable=True),
        sa.Column("registry_value", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_published_result")),
        sa.UniqueConstraint("source", "ordinal", name=op.f("uq_published_result_source_ordinal")),
    )
    op.create_table(
        "suite",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("definition", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suite")),
        sa.UniqueConstraint("name", "digest", name=op.f("uq_suite_name_digest")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_suite_name_version")),
    )
    op.create_table(
        "board",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("suite_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("definition", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["suite_id"], ["suite.id"], name=op.f("fk_board_suite_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_board")),
        sa.UniqueConstraint("name", "digest", name=op.f("uq_board_name_digest")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_board_name_version")),
    )
    op.create_table(
        "board_entry",
        sa.Column("board_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordinal", sa.SmallInteger(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("benchmark_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("protocol_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant_set_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "question_filter", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False
        ),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["benchmark_version_id"], ["benchmark_version.id"], name=op.f("fk_board_entry_benchmark_version_id")
        ),
        sa.ForeignKeyConstraint(["board_id"], ["board.id"], name=op.f("fk_board_entry_board_id")),
        sa.ForeignKeyConstraint(["protocol_id"], ["protocol.id"], name=op.f("fk_board_entry_protocol_id")),
        sa.ForeignKeyConstraint(["variant_set_id"], ["variant_set.id"], name=op.f("fk_board_entry_variant_set_id")),
        sa.PrimaryKeyConstraint("board_id", "ordinal", name=op.f("pk_board_entry")),
    )
    op.create_index(op.f("ix_board_entry_benchmark_version_id"), "board_entry", ["benchmark_version_id"], unique=False)
    op.create_table(
        "board_snapshot",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("board_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("as_of", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("document", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["board_id"], ["board.id"], name=op.f("fk_board_snapshot_board_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_board_snapshot")),
    )
    op.create_index("ix_board_snapshot_board_id_as_of", "board_snapshot", ["board_id", "as_of"], unique=False)
    op.create_index(op.f("ix_board_snapshot_digest"), "board_snapshot", ["digest"], unique=False)
    op.create_table(
        "analysis",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("parameters", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("parameters_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("result", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("computed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_analysis_evaluation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_analysis")),
        sa.UniqueConstraint(
            "evaluation_id", "kind", "parameters_digest", name=op.f("uq_analysis_evaluation_id_kind_parameters_digest")
        ),
    )
    op.create_table(
        "board_standing",
        sa.Column("board_snapshot_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("column_name", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("variant_set_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("protocol_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("interval_low", sa.Double(), nullable=True),
        sa.Column("interval_high", sa.Double(), nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        sa.Column("rank_low", sa.Integer(), nullable=True),
        sa.Column("rank_high", sa.Integer(), nullable=True),
        sa.Column("tier", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["board_snapshot_id"], ["board_snapshot.id"], name=op.f("fk_board_standing_board_snapshot_id")
        ),
        sa.ForeignKeyConstraint(
            ["model_revision_id"], ["model_revision.id"], name=op.f("fk_board_standing_model_revision_id")
        ),
        sa.ForeignKeyConstraint(["protocol_id"], ["protocol.id"], name=op.f("fk_board_standing_protocol_id")),
        sa.ForeignKeyConstraint(["variant_set_id"], ["variant_set.id"], name=op.f("fk_board_standing_variant_set_id")),
        sa.PrimaryKeyConstraint(
            "board_snapshot_id", "model_revision_id", "column_name", name=op.f("pk_board_standing")
        ),
    )
    op.create_table(
        "question_pride",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("estimation", sa.Boolean(), nullable=False),
        sa.Column("correct", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_question_pride_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", name=op.f("pk_question_pride")),
    )
    op.add_column("evaluation_metric", sa.Column("interval_method", sa.Text(), nullable=True))
    op.add_column("evaluation_metric", sa.Column("interval_resamples", sa.Integer(), nullable=True))
    op.add_column("evaluation_metric", sa.Column("interval_seed", sa.Integer(), nullable=True))
    op.add_column(
        "prediction",
        sa.Column("reused_from_evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
    )
    op.add_column("prediction", sa.Column("reused_from_variant", sa.SmallInteger(), nullable=True))
    op.create_index(
        "ix_prediction_reused_from",
        "prediction",
        ["reused_from_evaluation_id"],
        postgresql_where=sa.text("reused_from_evaluation_id IS NOT NULL"),
        sqlite_where=sa.text("reused_from_evaluation_id IS NOT NULL"),
    )
    op.add_column(
        "worker",
        sa.Column("queues", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
    )
    op.add_column(
        "worker",
        sa.Column(
            "token_budgets", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True
        ),
    )
    create_views(revision)
    create_triggers(revision)
