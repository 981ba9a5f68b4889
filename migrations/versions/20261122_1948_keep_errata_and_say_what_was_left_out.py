"""Keep errata and say what was left out.

Revision: 202611221948. Follows: 202611221653.
"""

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations import frozen

revision = "202611221948"
down_revision = "202611221653"
branch_labels = None
depends_on = None


KINDS = "kind IN ('seal', 'withdrawal', 'snapshot', 'errata')"
STANDING = """
UPDATE board_standing SET all_rank_low = :low, all_rank_high = :high, all_tier = :tier
WHERE board_snapshot_id = :snapshot AND column_name = :column AND model_revision_id = (
    SELECT model_revision.id
    FROM model_revision
    JOIN model ON model.id = model_revision.model_id
    WHERE model.name = :model AND model_revision.number = :revision
)
"""


def _fill(connection: sa.Connection) -> None:
    """Of every snapshot what its document says."""
    for snapshot in connection.scalars(sa.text("SELECT id FROM board_snapshot ORDER BY id")).all():
        found = connection.scalar(sa.text("SELECT document FROM board_snapshot WHERE id = :id"), {"id": snapshot})
        document = json.loads(found) if isinstance(found, str) else found
        standings = [
            {
                "snapshot": snapshot,
                "model": row["model"],
                "revision": row["revision"],
                "column": column,
                "low": (value.get("all_rank_interval") or (None, None))[0],
                "high": (value.get("all_rank_interval") or (None, None))[1],
                "tier": value.get("all_tier"),
            }
            for row in document["rows"]
            for column, value in row["values"].items()
            if value.get("all_rank_interval") or value.get("all_tier")
        ]
        if standings:
            connection.execute(sa.text(STANDING), standings)


def upgrade() -> None:
    frozen.drop(down_revision)
    # SQLite has no ALTER for a check: there the table is made anew.
    with op.batch_alter_table("chain_link") as chain_link:
        chain_link.drop_constraint(op.f("ck_chain_link_kind"), type_="check")
        chain_link.create_check_constraint(op.f("ck_chain_link_kind"), KINDS)
    op.create_table(
        "errata_version",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("benchmark_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint("number >= 1", name=op.f("ck_errata_version_number")),
        sa.ForeignKeyConstraint(
            ["benchmark_version_id"], ["benchmark_version.id"], name=op.f("fk_errata_version_benchmark_version_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_errata_version")),
        sa.UniqueConstraint(
            "benchmark_version_id", "number", name=op.f("uq_errata_version_benchmark_version_id_number")
        ),
    )
    op.create_index(op.f("ix_errata_version_digest"), "errata_version", ["digest"], unique=False)
    op.create_table(
        "erratum",
        sa.Column("errata_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("answer", sa.SmallInteger(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint("(status = 'corrected-key') = (answer IS NOT NULL)", name=op.f("ck_erratum_answer")),
        sa.CheckConstraint("note <> ''", name=op.f("ck_erratum_note")),
        sa.CheckConstraint("status IN ('disputed', 'wrong-key', 'corrected-key')", name=op.f("ck_erratum_status")),
        sa.ForeignKeyConstraint(
            ["errata_version_id"], ["errata_version.id"], name=op.f("fk_erratum_errata_version_id")
        ),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_erratum_question_id")),
        sa.PrimaryKeyConstraint("errata_version_id", "question_id", name=op.f("pk_erratum")),
    )
    op.add_column("board_standing", sa.Column("all_rank_low", sa.Integer(), nullable=True))
    op.add_column("board_standing", sa.Column("all_rank_high", sa.Integer(), nullable=True))
    op.add_column("board_standing", sa.Column("all_tier", sa.Integer(), nullable=True))
    op.add_column("evaluation", sa.Column("sampled_for", sa.Text(), nullable=True))
    op.add_column("evaluation", sa.Column("stopped_for", sa.Text(), nullable=True))
    op.add_column(
        "variant_set",
        sa.Column("content", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
    )
    _fill(op.get_bind())
    sqlite = op.get_bind().dialect.name == "sqlite"
    metric = (
        "json_extract(specification, '$.questions.precision.metric')"
        if sqlite
        else "specification #>> '{questions,precision,metric}'"
    )
    op.execute(f"UPDATE evaluation SET sampled_for = {metric} WHERE {metric} IS NOT NULL")  # noqa: S608
    frozen.create(revision)
