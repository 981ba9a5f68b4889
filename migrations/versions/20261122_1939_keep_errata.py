"""Keep errata.

Revision: 202611221939. Follows: 202611221906.
"""

import sqlalchemy as sa
from alembic import op

from migrations import frozen

revision = "202611221939"
down_revision = "202611221906"
branch_labels = None
depends_on = None


KINDS = "kind IN ('seal', 'withdrawal', 'snapshot', 'errata')"


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
    frozen.create(revision)
