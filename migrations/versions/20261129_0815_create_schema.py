"""Create schema.

Revision: 202611290815. Follows: nothing.

It makes the tables of the first release. Until that is out, `python -m migrations.draft --first` writes it again after
each change of `registry/tables`; give it today's time then, so that older databases report the remedy.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "202611290815"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "benchmark",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_benchmark")),
        sa.UniqueConstraint("name", name=op.f("uq_benchmark_name")),
    )
    op.create_table(
        "budget",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("spent", sa.Double(), nullable=False),
        sa.Column("held", sa.Double(), nullable=False),
        sa.Column("refused", sa.Double(), nullable=True),
        sa.CheckConstraint("kind IN ('evaluation', 'submission', 'account')", name=op.f("ck_budget_kind")),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_budget_amount")),
        sa.PrimaryKeyConstraint("kind", "subject", name=op.f("pk_budget")),
    )
    op.create_table(
        "chain_link",
        sa.Column(
            "position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.LargeBinary(32), nullable=False),
        sa.Column("labels", sa.LargeBinary(32), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("previous", sa.LargeBinary(32), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.CheckConstraint("kind IN ('seal', 'folder', 'withdrawal', 'snapshot')", name=op.f("ck_chain_link_kind")),
        sa.CheckConstraint("position >= 1", name=op.f("ck_chain_link_position")),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_chain_link")),
        sa.UniqueConstraint("digest", name=op.f("uq_chain_link_digest")),
        sa.UniqueConstraint("previous", name=op.f("uq_chain_link_previous")),
    )
    op.create_index(op.f("ix_chain_link_subject"), "chain_link", ["subject"], unique=False)
    op.create_table(
        "chain_signature",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("head", sa.LargeBinary(32), nullable=False),
        sa.Column("key", sa.LargeBinary(32), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("statement", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chain_signature")),
    )
    op.create_index("ix_chain_signature_position", "chain_signature", ["position"], unique=False)
    op.create_table(
        "engine_fingerprint",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("document", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_engine_fingerprint")),
        sa.UniqueConstraint("digest", name=op.f("uq_engine_fingerprint_digest")),
    )
    op.create_table(
        "model",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "earlier_names", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True
        ),
        sa.Column("family", sa.Text(), nullable=True),
        sa.Column("developer", sa.Text(), nullable=True),
        sa.Column("parameters", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("licence", sa.Text(), nullable=True),
        sa.Column("released", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model")),
        sa.UniqueConstraint("name", name=op.f("uq_model_name")),
    )
    op.create_table(
        "protocol",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("shots", sa.SmallInteger(), nullable=False),
        sa.Column("definition", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_protocol")),
        sa.UniqueConstraint("digest", name=op.f("uq_protocol_digest")),
    )
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
        "rate_limit",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("requests_free_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("tokens_free_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_limit")),
    )
    op.create_table(
        "registry_generation",
        sa.Column("generation", sa.String(length=36), nullable=False),
        sa.Column("place", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("drawn_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("generation", name=op.f("pk_registry_generation")),
    )
    op.create_table(
        "role",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("rank", sa.SmallInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_role")),
        sa.UniqueConstraint("rank", name=op.f("uq_role_rank")),
    )
    op.create_table(
        "subject_category",
        sa.Column("category", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("category", "subject", name=op.f("pk_subject_category")),
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
        "variant_set",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.SmallInteger(), nullable=False),
        sa.Column("parameters", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("inserted", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("content", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_variant_set")),
        sa.UniqueConstraint("digest", name=op.f("uq_variant_set_digest")),
    )
    op.create_table(
        "account",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("last_login_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["role"], ["role.name"], name=op.f("fk_account_role")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
        sa.UniqueConstraint("name", name=op.f("uq_account_name")),
    )
    op.create_table(
        "benchmark_version",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("benchmark_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("content_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("file_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("language", sa.Text(), nullable=False),
        sa.Column("split", sa.Text(), nullable=False),
        sa.Column("licence", sa.Text(), nullable=True),
        sa.Column("source", sa.Text(), nullable=True),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("public_from", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("shuffle_seed", sa.Integer(), nullable=True),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("few_shot_examples", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint(
            "visibility IN ('public', 'members', 'hidden')", name=op.f("ck_benchmark_version_visibility")
        ),
        sa.ForeignKeyConstraint(["benchmark_id"], ["benchmark.id"], name=op.f("fk_benchmark_version_benchmark_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_benchmark_version")),
        sa.UniqueConstraint(
            "benchmark_id", "content_digest", name=op.f("uq_benchmark_version_benchmark_id_content_digest")
        ),
        sa.UniqueConstraint("benchmark_id", "version", name=op.f("uq_benchmark_version_benchmark_id_version")),
    )
    op.create_index(op.f("ix_benchmark_version_public_from"), "benchmark_version", ["public_from"], unique=False)
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
        "model_revision",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("model_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=True),
        sa.Column("requested_revision", sa.Text(), nullable=True),
        sa.Column("revision", sa.Text(), nullable=True),
        sa.Column("dtype", sa.Text(), nullable=True),
        sa.Column("quantisation", sa.Text(), nullable=True),
        sa.Column("adapter", sa.Text(), nullable=True),
        sa.Column("adapter_commit", sa.Text(), nullable=True),
        sa.Column("adapter_merged", sa.Boolean(), nullable=True),
        sa.Column("base_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("adapter_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("weights_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("tokenizer_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("chat_template", sa.Text(), nullable=True),
        sa.Column("chat_template_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("thinking", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("prepared_by", sa.String(length=36), nullable=True),
        sa.Column("prepare_until", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint(
            "kind IN ('huggingface', 'gguf', 'openai', 'external')", name=op.f("ck_model_revision_kind")
        ),
        sa.CheckConstraint("state IN ('registered', 'ready', 'failed')", name=op.f("ck_model_revision_state")),
        sa.ForeignKeyConstraint(["model_id"], ["model.id"], name=op.f("fk_model_revision_model_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_revision")),
        sa.UniqueConstraint("model_id", "number", name=op.f("uq_model_revision_model_id_number")),
    )
    op.create_table(
        "variant",
        sa.Column("variant_set_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("n_options", sa.SmallInteger(), nullable=False),
        sa.Column("ordinal", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["variant_set_id"], ["variant_set.id"], name=op.f("fk_variant_variant_set_id")),
        sa.PrimaryKeyConstraint("variant_set_id", "n_options", "ordinal", name=op.f("pk_variant")),
    )
    op.create_table(
        "account_identity",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_account_identity_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account_identity")),
        sa.UniqueConstraint("account_id", "issuer", name=op.f("uq_account_identity_account_id_issuer")),
        sa.UniqueConstraint("issuer", "subject", name=op.f("uq_account_identity_issuer_subject")),
    )
    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hint", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("scopes", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_api_token_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_token_digest")),
    )
    op.create_index(op.f("ix_api_token_account_id"), "api_token", ["account_id"], unique=False)
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
        "browser_session",
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_browser_session_account_id")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_browser_session")),
    )
    op.create_index(op.f("ix_browser_session_account_id"), "browser_session", ["account_id"], unique=False)
    op.create_table(
        "evaluation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "specification", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False
        ),
        sa.Column("specification_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("asked_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("benchmark_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("protocol_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant_set_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("max_workers", sa.Integer(), nullable=True),
        sa.Column("requester", sa.Text(), nullable=True),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("prompts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("failed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("sealed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("seal", sa.LargeBinary(32), nullable=True),
        sa.Column("seal_version", sa.SmallInteger(), nullable=True),
        sa.Column("distinct_prompts_min", sa.SmallInteger(), nullable=True),
        sa.Column("distinct_prompts_max", sa.SmallInteger(), nullable=True),
        sa.Column("variants_max", sa.SmallInteger(), nullable=True),
        sa.Column("orders_only", sa.Boolean(), nullable=True),
        sa.Column("chance", sa.Double(), nullable=True),
        sa.Column("unread", sa.Integer(), nullable=True),
        sa.Column("unfinished", sa.Integer(), nullable=True),
        sa.Column("tokens_per_answer", sa.Double(), nullable=True),
        sa.Column("thought_tokens_per_answer", sa.Double(), nullable=True),
        sa.Column("sampled_from", sa.Integer(), nullable=True),
        sa.Column("sample_seed", sa.Integer(), nullable=True),
        sa.Column("repeats", sa.SmallInteger(), nullable=True),
        sa.Column("lists_options", sa.Boolean(), server_default=sa.text("(true)"), nullable=False),
        sa.Column("samples", sa.Boolean(), nullable=True),
        sa.Column("conflict_of_interest", sa.Text(), nullable=True),
        sa.Column("replayed_from", sa.LargeBinary(32), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'paused', 'complete', 'failed', 'cancelled')",
            name=op.f("ck_evaluation_state"),
        ),
        sa.CheckConstraint("(seal IS NULL) = (sealed_at IS NULL)", name=op.f("ck_evaluation_sealed")),
        sa.ForeignKeyConstraint(
            ["benchmark_version_id"], ["benchmark_version.id"], name=op.f("fk_evaluation_benchmark_version_id")
        ),
        sa.ForeignKeyConstraint(
            ["model_revision_id"], ["model_revision.id"], name=op.f("fk_evaluation_model_revision_id")
        ),
        sa.ForeignKeyConstraint(["protocol_id"], ["protocol.id"], name=op.f("fk_evaluation_protocol_id")),
        sa.ForeignKeyConstraint(["variant_set_id"], ["variant_set.id"], name=op.f("fk_evaluation_variant_set_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluation")),
        sa.UniqueConstraint(
            "specification_digest", "replicate", name=op.f("uq_evaluation_specification_digest_replicate")
        ),
    )
    op.create_index(op.f("ix_evaluation_benchmark_version_id"), "evaluation", ["benchmark_version_id"], unique=False)
    op.create_index(
        "ix_evaluation_comparable",
        "evaluation",
        ["asked_digest", "id"],
        unique=False,
        postgresql_include=["model_revision_id", "questions"],
        postgresql_where=sa.text("seal IS NOT NULL"),
        sqlite_where=sa.text("seal IS NOT NULL"),
    )
    op.create_index(op.f("ix_evaluation_model_revision_id"), "evaluation", ["model_revision_id"], unique=False)
    op.create_index(op.f("ix_evaluation_replayed_from"), "evaluation", ["replayed_from"], unique=False)
    op.create_index(
        "ix_evaluation_replicated",
        "evaluation",
        ["specification_digest"],
        unique=False,
        postgresql_where=sa.text("replicate > 0"),
        sqlite_where=sa.text("replicate > 0"),
    )
    op.create_index("ix_evaluation_seal", "evaluation", ["seal"], unique=False)
    op.create_index("ix_evaluation_state", "evaluation", ["state"], unique=False)
    op.create_table(
        "question",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("benchmark_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("few_shot", sa.Boolean(), nullable=False),
        sa.Column("external_id", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("context", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("answer", sa.SmallInteger(), nullable=False),
        sa.Column("n_options", sa.SmallInteger(), nullable=False),
        sa.Column("refers_to_options", sa.Boolean(), nullable=False),
        sa.Column("sorted_numeric", sa.Boolean(), nullable=False),
        sa.Column("extra", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("n_options >= 2 AND answer >= 0 AND answer < n_options", name=op.f("ck_question_answer")),
        sa.ForeignKeyConstraint(
            ["benchmark_version_id"], ["benchmark_version.id"], name=op.f("fk_question_benchmark_version_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_question")),
        sa.UniqueConstraint(
            "benchmark_version_id",
            "few_shot",
            "external_id",
            name=op.f("uq_question_benchmark_version_id_few_shot_external_id"),
        ),
        sa.UniqueConstraint(
            "benchmark_version_id",
            "few_shot",
            "ordinal",
            name=op.f("uq_question_benchmark_version_id_few_shot_ordinal"),
        ),
    )
    op.create_table(
        "saved_query",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sql", sa.Text(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_saved_query_account_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_query")),
        sa.UniqueConstraint("slug", name=op.f("uq_saved_query_slug")),
    )
    op.create_index(op.f("ix_saved_query_account_id"), "saved_query", ["account_id"], unique=False)
    op.create_table(
        "submission",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("model", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("conflict_of_interest", sa.Text(), nullable=True),
        sa.Column("anonymous", sa.Boolean(), server_default=sa.text("(false)"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("decided_by", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("estimate", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint(
            "(state IN ('approved', 'rejected')) = (decided_at IS NOT NULL)", name=op.f("ck_submission_decided")
        ),
        sa.CheckConstraint(
            "state IN ('requested', 'approved', 'rejected', 'withdrawn')", name=op.f("ck_submission_state")
        ),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_submission_account_id")),
        sa.ForeignKeyConstraint(["decided_by"], ["account.id"], name=op.f("fk_submission_decided_by")),
        sa.ForeignKeyConstraint(
            ["model_revision_id"], ["model_revision.id"], name=op.f("fk_submission_model_revision_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submission")),
    )
    op.create_index(op.f("ix_submission_account_id"), "submission", ["account_id"], unique=False)
    op.create_index("ix_submission_state", "submission", ["state"], unique=False)
    op.create_table(
        "worker",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("scopes", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("versions", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("loaded_model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("queues", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column(
            "token_budgets", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True
        ),
        sa.Column("started_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("stopped_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(
            ["loaded_model_revision_id"], ["model_revision.id"], name=op.f("fk_worker_loaded_model_revision_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
    )
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
        "archive",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("location", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("predictions", sa.Integer(), nullable=False),
        sa.Column("texts", sa.Integer(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint("state IN ('written', 'archiving', 'archived', 'restoring')", name=op.f("ck_archive_state")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_archive_evaluation_id")),
        sa.PrimaryKeyConstraint("evaluation_id", name=op.f("pk_archive")),
    )
    op.create_table(
        "audit_event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("account_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("api_token_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=True),
        sa.Column("details", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("outcome IN ('done', 'refused')", name=op.f("ck_audit_event_outcome")),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_audit_event_account_id")),
        sa.ForeignKeyConstraint(["api_token_id"], ["api_token.id"], name=op.f("fk_audit_event_api_token_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_event")),
    )
    op.create_index("ix_audit_event_account_id", "audit_event", ["account_id"], unique=False)
    op.create_index("ix_audit_event_at", "audit_event", ["at"], unique=False)
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
        sa.Column("all_rank_low", sa.Integer(), nullable=True),
        sa.Column("all_rank_high", sa.Integer(), nullable=True),
        sa.Column("all_tier", sa.Integer(), nullable=True),
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
        "evaluation_metric",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("definition_version", sa.SmallInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("interval_low", sa.Double(), nullable=True),
        sa.Column("interval_high", sa.Double(), nullable=True),
        sa.Column("computed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("interval_method", sa.Text(), nullable=True),
        sa.Column("interval_resamples", sa.Integer(), nullable=True),
        sa.Column("interval_seed", sa.Integer(), nullable=True),
        sa.Column("code_version", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_evaluation_metric_evaluation_id")),
        sa.PrimaryKeyConstraint(
            "evaluation_id", "scope", "metric", "definition_version", name=op.f("pk_evaluation_metric")
        ),
    )
    op.create_index(
        "ix_evaluation_metric_metric",
        "evaluation_metric",
        ["metric", "evaluation_id"],
        unique=False,
        postgresql_include=["definition_version", "value"],
        postgresql_where=sa.text("scope = 'all'"),
        sqlite_where=sa.text("scope = 'all'"),
    )
    op.create_table(
        "evaluation_source",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("seal", sa.LargeBinary(32), nullable=False),
        sa.Column("predictions", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_evaluation_source_evaluation_id")),
        sa.PrimaryKeyConstraint("evaluation_id", "seal", name=op.f("pk_evaluation_source")),
    )
    op.create_index(op.f("ix_evaluation_source_seal"), "evaluation_source", ["seal"], unique=False)
    op.create_table(
        "question_option",
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordinal", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_question_option_question_id")),
        sa.PrimaryKeyConstraint("question_id", "ordinal", name=op.f("pk_question_option")),
    )
    op.create_table(
        "question_seal",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("leaf", sa.LargeBinary(32), nullable=False),
        sa.Column("prompts", sa.LargeBinary(32), nullable=True),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_question_seal_evaluation_id")),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_question_seal_question_id")),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", name=op.f("pk_question_seal")),
    )
    op.create_table(
        "shard",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("prompts", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("failures", sa.SmallInteger(), nullable=False),
        sa.Column("crashes", sa.SmallInteger(), nullable=False),
        sa.Column("stalled_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("stalled_worker_id", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("worker_id", sa.String(length=36), nullable=True),
        sa.Column("registry_generation", sa.String(length=36), nullable=True),
        sa.Column("engine_fingerprint_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("tokens_naive", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("tokens_computed", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("elapsed_s", sa.Double(), nullable=True),
        sa.Column("matching_s", sa.Double(), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("(state = 'leased') = (lease_until IS NOT NULL)", name=op.f("ck_shard_lease")),
        sa.CheckConstraint(
            "queue IN ('cpu', 'gpu', 'gpu-16', 'gpu-24', 'gpu-40', 'gpu-80', 'gpu-140')", name=op.f("ck_shard_queue")
        ),
        sa.CheckConstraint("state IN ('queued', 'leased', 'done', 'failed', 'cancelled')", name=op.f("ck_shard_state")),
        sa.ForeignKeyConstraint(
            ["engine_fingerprint_id"], ["engine_fingerprint.id"], name=op.f("fk_shard_engine_fingerprint_id")
        ),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_shard_evaluation_id")),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name=op.f("fk_shard_worker_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shard")),
        sa.UniqueConstraint("evaluation_id", "ordinal", name=op.f("uq_shard_evaluation_id_ordinal")),
    )
    op.create_index("ix_shard_free", "shard", ["state", "queue", "evaluation_id", "id"], unique=False)
    op.create_table(
        "submission_evaluation",
        sa.Column("submission_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation.id"], name=op.f("fk_submission_evaluation_evaluation_id")
        ),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submission.id"], name=op.f("fk_submission_evaluation_submission_id")
        ),
        sa.PrimaryKeyConstraint("submission_id", "evaluation_id", name=op.f("pk_submission_evaluation")),
    )
    op.create_index(
        op.f("ix_submission_evaluation_evaluation_id"), "submission_evaluation", ["evaluation_id"], unique=False
    )
    op.create_table(
        "withdrawal",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("superseded_by", sa.LargeBinary(32), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint(
            "(kind = 'superseded') = (superseded_by IS NOT NULL)", name=op.f("ck_withdrawal_superseded_by")
        ),
        sa.CheckConstraint("kind IN ('withdrawn', 'superseded')", name=op.f("ck_withdrawal_kind")),
        sa.CheckConstraint("reason <> ''", name=op.f("ck_withdrawal_reason")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_withdrawal_evaluation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_withdrawal")),
    )
    op.create_index(op.f("ix_withdrawal_evaluation_id"), "withdrawal", ["evaluation_id"], unique=False)
    op.create_table(
        "evaluation_question",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("n_variants", sa.SmallInteger(), nullable=False),
        sa.Column("shard_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluation.id"], name=op.f("fk_evaluation_question_evaluation_id")
        ),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_evaluation_question_question_id")),
        sa.ForeignKeyConstraint(["shard_id"], ["shard.id"], name=op.f("fk_evaluation_question_shard_id")),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", name=op.f("pk_evaluation_question")),
    )
    op.create_index("ix_evaluation_question_question_id", "evaluation_question", ["question_id"], unique=False)
    op.create_index("ix_evaluation_question_shard_id", "evaluation_question", ["shard_id"], unique=False)
    op.create_table(
        "exclusion",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("shard_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("lasting", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.CheckConstraint("(model_revision_id IS NULL) <> (shard_id IS NULL)", name=op.f("ck_exclusion_of_one")),
        sa.ForeignKeyConstraint(
            ["model_revision_id"], ["model_revision.id"], name=op.f("fk_exclusion_model_revision_id")
        ),
        sa.ForeignKeyConstraint(["shard_id"], ["shard.id"], name=op.f("fk_exclusion_shard_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exclusion")),
    )
    op.create_index("ix_exclusion_model_revision_id", "exclusion", ["model_revision_id"], unique=False)
    op.create_index("ix_exclusion_shard_id", "exclusion", ["shard_id"], unique=False)
    op.create_table(
        "provider_batch",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("shard_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("remote_id", sa.Text(), nullable=True),
        sa.Column("written_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("state <> 'submitted' OR remote_id IS NOT NULL", name=op.f("ck_provider_batch_remote_id")),
        sa.CheckConstraint("state IN ('written', 'sent', 'submitted', 'ended')", name=op.f("ck_provider_batch_state")),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_provider_batch_evaluation_id")),
        sa.ForeignKeyConstraint(["shard_id"], ["shard.id"], name=op.f("fk_provider_batch_shard_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_batch")),
    )
    op.create_index(op.f("ix_provider_batch_evaluation_id"), "provider_batch", ["evaluation_id"], unique=False)
    op.create_index(
        "uq_provider_batch_open",
        "provider_batch",
        ["shard_id"],
        unique=True,
        postgresql_where=sa.text("state <> 'ended'"),
        sqlite_where=sa.text("state <> 'ended'"),
    )
    op.create_table(
        "draft",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
        sa.Column("fingerprint", sa.LargeBinary(32), nullable=False),
        sa.Column("written", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_draft_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", "variant", name=op.f("pk_draft")),
    )
    op.create_table(
        "prediction",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
        sa.Column("prompt_key", sa.SmallInteger(), nullable=False),
        sa.Column("shown", sa.ARRAY(sa.SmallInteger()).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("question_shown", sa.Boolean(), nullable=False),
        sa.Column("own_options", sa.Boolean(), nullable=False),
        sa.Column("unchanged", sa.Boolean(), nullable=False),
        sa.Column("prompt_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("chosen_position", sa.SmallInteger(), nullable=True),
        sa.Column("chosen_option", sa.SmallInteger(), nullable=True),
        sa.Column("correct", sa.Boolean(), nullable=False),
        sa.Column("tied", sa.Boolean(), nullable=False),
        sa.Column("extraction_rule", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=True),
        sa.Column("label_logprobs", sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("label_probabilities", sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("label_mass", sa.Double(), nullable=True),
        sa.Column("answer_probability", sa.Double(), nullable=True),
        sa.Column("brier_score", sa.Double(), nullable=True),
        sa.Column("entropy", sa.Double(), nullable=True),
        sa.Column("logprobs_without_question", sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("accuracy_normalized", sa.Boolean(), nullable=True),
        sa.Column("npsq_correct", sa.Double(), nullable=True),
        sa.Column("npsq_accuracy", sa.Boolean(), nullable=True),
        sa.Column("choice_only_accuracy", sa.Boolean(), nullable=True),
        sa.Column("choice_sensitivity", sa.Boolean(), nullable=True),
        sa.Column("choice_sensitivity_normalized", sa.Boolean(), nullable=True),
        sa.Column("reused_from_evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("reused_from_variant", sa.SmallInteger(), nullable=True),
        sa.Column("reused_from_seal", sa.LargeBinary(32), nullable=True),
        sa.CheckConstraint(
            "'-Infinity' < ALL (label_logprobs) AND 0 >= ALL (label_logprobs)",
            name=op.f("ck_prediction_label_logprobs"),
        ).ddl_if(dialect="postgresql"),
        sa.CheckConstraint(
            "npsq_correct > '-Infinity' AND npsq_correct <= 1", name=op.f("ck_prediction_npsq_correct")
        ).ddl_if(dialect="postgresql"),
        sa.CheckConstraint("state IN ('unfinished', 'empty', 'refused')", name=op.f("ck_prediction_state")),
        sa.CheckConstraint("(chosen_position IS NULL) = (chosen_option IS NULL)", name=op.f("ck_prediction_chosen")),
        sa.CheckConstraint(
            "0 <= ALL (label_probabilities) AND 1 >= ALL (label_probabilities)",
            name=op.f("ck_prediction_label_probabilities"),
        ).ddl_if(dialect="postgresql"),
        sa.CheckConstraint(
            "answer_probability >= 0 AND answer_probability <= 1", name=op.f("ck_prediction_answer_probability")
        ),
        sa.CheckConstraint("brier_score >= 0 AND brier_score <= 2", name=op.f("ck_prediction_brier_score")),
        sa.CheckConstraint("chosen_position IS NOT NULL OR NOT correct", name=op.f("ck_prediction_correct")),
        sa.CheckConstraint("entropy >= 0 AND entropy <= 1", name=op.f("ck_prediction_entropy")),
        sa.CheckConstraint("label_mass >= 0 AND label_mass <= 1.000001", name=op.f("ck_prediction_label_mass")),
        sa.CheckConstraint("state IS NULL OR chosen_position IS NULL", name=op.f("ck_prediction_unanswered")),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_prediction_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", "variant", name=op.f("pk_prediction")),
    )
    op.create_index(
        "ix_prediction_reused_from",
        "prediction",
        ["reused_from_evaluation_id"],
        unique=False,
        postgresql_where=sa.text("reused_from_evaluation_id IS NOT NULL"),
        sqlite_where=sa.text("reused_from_evaluation_id IS NOT NULL"),
    )
    op.create_table(
        "provider_call",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("cost_limit", sa.Double(), nullable=True),
        sa.Column("cost", sa.Double(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("written_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column("served_model", sa.Text(), nullable=True),
        sa.Column("system_fingerprint", sa.Text(), nullable=True),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("reasoning", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.CheckConstraint("(state = 'answered') = (text IS NOT NULL)", name=op.f("ck_provider_call_text")),
        sa.CheckConstraint(
            "outcome IN ('complete', 'cut-off', 'refused', 'filtered')", name=op.f("ck_provider_call_outcome")
        ),
        sa.CheckConstraint(
            "state IN ('begun', 'answered', 'failed', 'forgotten')", name=op.f("ck_provider_call_state")
        ),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_provider_call_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_provider_call")),
    )
    op.create_index(
        "ix_provider_call_prompt", "provider_call", ["evaluation_id", "question_id", "variant"], unique=False
    )
    op.create_index(
        "uq_provider_call_answer",
        "provider_call",
        ["evaluation_id", "question_id", "variant"],
        unique=True,
        postgresql_where=sa.text("state = 'answered'"),
        sqlite_where=sa.text("state = 'answered'"),
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
    op.create_table(
        "question_score",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("expected", sa.SmallInteger(), nullable=False),
        sa.Column("stored", sa.SmallInteger(), nullable=False),
        sa.Column("original_correct", sa.Boolean(), nullable=True),
        sa.Column("original_answered", sa.Boolean(), nullable=True),
        sa.Column("variants", sa.SmallInteger(), nullable=False),
        sa.Column("valid", sa.SmallInteger(), nullable=False),
        sa.Column("correct", sa.SmallInteger(), nullable=False),
        sa.Column("tied", sa.SmallInteger(), nullable=False),
        sa.Column("first_option", sa.SmallInteger(), nullable=True),
        sa.Column("agreeing", sa.SmallInteger(), nullable=False),
        sa.Column("equal_pairs", sa.Integer(), nullable=True),
        sa.Column("others", sa.SmallInteger(), nullable=True),
        sa.Column("others_correct", sa.SmallInteger(), nullable=True),
        sa.Column("shown", sa.SmallInteger(), nullable=True),
        sa.Column("shown_correct", sa.SmallInteger(), nullable=True),
        sa.Column("probability_variants", sa.SmallInteger(), nullable=True),
        sa.Column("answer_probability_sum", sa.Double(), nullable=True),
        sa.Column("brier_score_sum", sa.Double(), nullable=True),
        sa.Column("entropy_sum", sa.Double(), nullable=True),
        sa.Column("accuracy_normalized", sa.Boolean(), nullable=True),
        sa.Column("npsq_correct", sa.Double(), nullable=True),
        sa.Column("npsq_accuracy", sa.Boolean(), nullable=True),
        sa.Column("choice_only_accuracy", sa.Boolean(), nullable=True),
        sa.Column("choice_sensitivity", sa.Boolean(), nullable=True),
        sa.Column("choice_sensitivity_normalized", sa.Boolean(), nullable=True),
        sa.Column("distinct_prompts", sa.SmallInteger(), nullable=True),
        sa.Column("own_prompts", sa.SmallInteger(), nullable=True),
        sa.Column("answers", sa.SmallInteger(), nullable=True),
        sa.Column("repeated_prompts", sa.SmallInteger(), nullable=True),
        sa.Column("average_accuracy", sa.Double(), nullable=True),
        sa.Column("repeated_accuracy", sa.Double(), nullable=True),
        sa.Column("right_in_every_order", sa.Double(), nullable=True),
        sa.Column("right_twice_same_order", sa.Double(), nullable=True),
        sa.Column("right_twice_across_orders", sa.Double(), nullable=True),
        sa.Column("worst_order_low", sa.Double(), nullable=True),
        sa.Column("worst_order_high", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_question_score_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", name=op.f("pk_question_score")),
    )
    op.create_table(
        "generation",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("extracted", sa.Text(), nullable=True),
        sa.Column("tokens", sa.Integer(), nullable=True),
        sa.Column("finished", sa.Boolean(), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=True),
        sa.Column("forced", sa.Boolean(), nullable=True),
        sa.Column("thought", sa.LargeBinary(), nullable=True),
        sa.Column("thought_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("thought_characters", sa.Integer(), nullable=True),
        sa.Column("thought_tokens", sa.Integer(), nullable=True),
        sa.Column("thought_apart", sa.Boolean(), nullable=True),
        sa.Column("thought_opened", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id", "variant"],
            ["prediction.evaluation_id", "prediction.question_id", "prediction.variant"],
            name=op.f("fk_generation_evaluation_id_question_id_variant"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", "variant", name=op.f("pk_generation")),
    )
    op.bulk_insert(
        sa.table("role", sa.column("name"), sa.column("rank"), sa.column("description")),
        [
            {"name": "reader", "rank": 1, "description": "Reads what members may see, and asks the SQL page."},
            {"name": "submitter", "rank": 2, "description": "Asks for evaluations of a model."},
            {
                "name": "maintainer",
                "rank": 3,
                "description": "Decides what runs, keeps benchmarks and boards, sees all.",
            },
            {"name": "admin", "rank": 4, "description": "Keeps accounts and the audit trail."},
        ],
    )
    op.bulk_insert(
        sa.table("subject_category", sa.column("category"), sa.column("subject"), sa.column("source")),
        [
            {
                "category": "problem-solving",
                "subject": "abstract_algebra",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "college_mathematics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "elementary_mathematics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "high_school_mathematics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "high_school_statistics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "college_physics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "conceptual_physics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "high_school_physics",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "college_chemistry",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "high_school_chemistry",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "college_computer_science",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "computer_security",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "high_school_computer_science",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "machine_learning",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "electrical_engineering",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
            {
                "category": "problem-solving",
                "subject": "formal_logic",
                "source": "Shuffleboard: mathematics, physics, chemistry, computing, engineering, formal logic",
            },
        ],
    )
