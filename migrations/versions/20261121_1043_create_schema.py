"""Create schema.

Revision: 202611211043. Follows: .
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from migrations.frozen import create_views

revision = "202611211043"
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
        sa.Column("family", sa.Text(), nullable=True),
        sa.Column("developer", sa.Text(), nullable=True),
        sa.Column("parameters", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("licence", sa.Text(), nullable=True),
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
        "variant_set",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("version", sa.SmallInteger(), nullable=False),
        sa.Column("parameters", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("inserted", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_variant_set")),
        sa.UniqueConstraint("digest", name=op.f("uq_variant_set_digest")),
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
        sa.Column("weights_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("tokenizer_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("chat_template", sa.Text(), nullable=True),
        sa.Column("chat_template_digest", sa.LargeBinary(32), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
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
        "evaluation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "specification", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False
        ),
        sa.Column("specification_digest", sa.LargeBinary(32), nullable=False),
        sa.Column("replicate", sa.Integer(), nullable=False),
        sa.Column("model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("benchmark_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("protocol_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant_set_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("requester", sa.Text(), nullable=True),
        sa.Column("questions", sa.Integer(), nullable=False),
        sa.Column("prompts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("sealed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("seal", sa.LargeBinary(32), nullable=True),
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
    op.create_index(op.f("ix_evaluation_model_revision_id"), "evaluation", ["model_revision_id"], unique=False)
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
        "worker",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("versions", postgresql.JSONB(none_as_null=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("loaded_model_revision_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("last_seen", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=False),
        sa.Column("stopped_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.ForeignKeyConstraint(
            ["loaded_model_revision_id"], ["model_revision.id"], name=op.f("fk_worker_loaded_model_revision_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
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
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_evaluation_metric_evaluation_id")),
        sa.PrimaryKeyConstraint(
            "evaluation_id", "scope", "metric", "definition_version", name=op.f("pk_evaluation_metric")
        ),
    )
    op.create_table(
        "question_option",
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("ordinal", sa.SmallInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["question_id"], ["question.id"], name=op.f("fk_question_option_question_id")),
        sa.PrimaryKeyConstraint("question_id", "ordinal", name=op.f("pk_question_option")),
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
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("worker_id", sa.String(length=36), nullable=True),
        sa.Column("engine_fingerprint_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("tokens_naive", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("tokens_computed", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("elapsed_s", sa.Double(), nullable=True),
        sa.Column("claimed_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.CheckConstraint("(state = 'leased') = (lease_until IS NOT NULL)", name=op.f("ck_shard_lease")),
        sa.CheckConstraint("queue IN ('cpu', 'gpu', 'match')", name=op.f("ck_shard_queue")),
        sa.CheckConstraint("state IN ('queued', 'leased', 'done', 'failed', 'cancelled')", name=op.f("ck_shard_state")),
        sa.ForeignKeyConstraint(
            ["engine_fingerprint_id"], ["engine_fingerprint.id"], name=op.f("fk_shard_engine_fingerprint_id")
        ),
        sa.ForeignKeyConstraint(["evaluation_id"], ["evaluation.id"], name=op.f("fk_shard_evaluation_id")),
        sa.ForeignKeyConstraint(["worker_id"], ["worker.id"], name=op.f("fk_shard_worker_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shard")),
        sa.UniqueConstraint("evaluation_id", "ordinal", name=op.f("uq_shard_evaluation_id_ordinal")),
    )
    op.create_index("ix_shard_state_queue", "shard", ["state", "queue"], unique=False)
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
        "prediction",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("variant", sa.SmallInteger(), nullable=False),
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
        sa.Column("label_logprobs", sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("label_probabilities", sa.ARRAY(sa.Double()).with_variant(sa.Text(), "sqlite"), nullable=True),
        sa.Column("label_mass", sa.Double(), nullable=True),
        sa.Column("answer_probability", sa.Double(), nullable=True),
        sa.Column("brier_score", sa.Double(), nullable=True),
        sa.Column("entropy", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "'-Infinity' < ALL (label_logprobs) AND 0 >= ALL (label_logprobs)",
            name=op.f("ck_prediction_label_logprobs"),
        ).ddl_if(dialect="postgresql"),
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
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_prediction_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", "variant", name=op.f("pk_prediction")),
    )
    op.create_table(
        "question_score",
        sa.Column("evaluation_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("question_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("expected", sa.SmallInteger(), nullable=False),
        sa.Column("stored", sa.SmallInteger(), nullable=False),
        sa.Column("original_correct", sa.Boolean(), nullable=True),
        sa.Column("variants", sa.SmallInteger(), nullable=False),
        sa.Column("valid", sa.SmallInteger(), nullable=False),
        sa.Column("correct", sa.SmallInteger(), nullable=False),
        sa.Column("first_option", sa.SmallInteger(), nullable=True),
        sa.Column("agreeing", sa.SmallInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["evaluation_id", "question_id"],
            ["evaluation_question.evaluation_id", "evaluation_question.question_id"],
            name=op.f("fk_question_score_evaluation_id_question_id"),
        ),
        sa.PrimaryKeyConstraint("evaluation_id", "question_id", name=op.f("pk_question_score")),
    )
    create_views(revision)
