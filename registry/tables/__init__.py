"""The tables of a registry.

Times are UTC. Two kinds of index have different names: a **position** is the place at which an option was shown, an
**option** is its ordinal in the benchmark's order (inserted options are −1, −2, …). NULL always means "not known" or
"does not apply", never zero.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column, relationship

from registry.db import Base, Digest, DoubleArray, JsonDocument, RowId, SmallIntArray, UtcDateTime, database_now
from registry.tables import accounts as _accounts  # noqa: F401 - its tables belong to the same metadata
from registry.tables import drafts as _drafts  # noqa: F401 - these as well
from registry.tables import providers as _providers  # noqa: F401 - these as well
from registry.tables.checks import one_of

VISIBILITIES = ("public", "members", "hidden")
MODEL_KINDS = ("huggingface", "gguf", "openai", "external")
REVISION_STATES = ("registered", "ready", "failed")
UNANSWERED_STATES = ("unfinished", "empty", "refused")
EVALUATION_STATES = ("queued", "running", "paused", "complete", "failed", "cancelled")
SHARD_STATES = ("queued", "leased", "done", "failed", "cancelled")
WITHDRAWAL_KINDS = ("withdrawn", "superseded")
ARCHIVE_STATES = ("written", "archiving", "archived", "restoring")
LINK_KINDS = ("seal", "folder", "withdrawal", "snapshot")
QUEUES = ("cpu", "gpu", "gpu-16", "gpu-24", "gpu-40", "gpu-80", "gpu-140")
"""Kinds of device: any GPU, or a GPU that is sold as having at least this many GB of memory."""


def _check_between(column: str, low: float, high: float) -> CheckConstraint:
    """Return a constraint with both bounds, because PostgreSQL sorts NaN above every number."""
    return CheckConstraint(f"{column} >= {low} AND {column} <= {high}", name=column)


class Benchmark(Base):
    """A benchmark, identified by its name; its contents are in versions."""

    __tablename__ = "benchmark"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())

    versions: Mapped[list["BenchmarkVersion"]] = relationship(
        back_populates="benchmark", order_by="BenchmarkVersion.id"
    )


class BenchmarkVersion(Base):
    """One version of a benchmark's content, identified by the digest of its questions and few-shot pool.

    `visibility`: who may see it until `public_from`, when it becomes public. `public_from` NULL: the visibility does
    not change by itself.
    """

    __tablename__ = "benchmark_version"
    __table_args__ = (
        UniqueConstraint("benchmark_id", "version"),
        UniqueConstraint("benchmark_id", "content_digest"),
        one_of("visibility", VISIBILITIES),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    benchmark_id: Mapped[int] = mapped_column(ForeignKey("benchmark.id"))
    version: Mapped[str] = mapped_column(Text)
    content_digest: Mapped[str] = mapped_column(Digest)
    file_digest: Mapped[str] = mapped_column(Digest)
    language: Mapped[str] = mapped_column(Text)
    split: Mapped[str] = mapped_column(Text)
    licence: Mapped[str | None] = mapped_column(Text)
    source: Mapped[str | None] = mapped_column(Text)
    visibility: Mapped[str] = mapped_column(Text, default="public")
    public_from: Mapped[datetime | None] = mapped_column(UtcDateTime, index=True)
    shuffle_seed: Mapped[int | None] = mapped_column(Integer)
    questions: Mapped[int] = mapped_column(Integer)
    few_shot_examples: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())

    benchmark: Mapped[Benchmark] = relationship(back_populates="versions")


class Question(Base):
    """A question or, if `few_shot` is true, an example of the version's pool. `answer` is an option ordinal."""

    __tablename__ = "question"
    __table_args__ = (
        UniqueConstraint("benchmark_version_id", "few_shot", "external_id"),
        UniqueConstraint("benchmark_version_id", "few_shot", "ordinal"),
        CheckConstraint("n_options >= 2 AND answer >= 0 AND answer < n_options", name="answer"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    benchmark_version_id: Mapped[int] = mapped_column(ForeignKey("benchmark_version.id"))
    few_shot: Mapped[bool] = mapped_column(Boolean)
    external_id: Mapped[str] = mapped_column(Text)
    ordinal: Mapped[int] = mapped_column(Integer)
    subject: Mapped[str | None] = mapped_column(Text)
    context: Mapped[str | None] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)
    answer: Mapped[int] = mapped_column(SmallInteger)
    n_options: Mapped[int] = mapped_column(SmallInteger)
    # Permuting the options changes the meaning of these questions, so every metric exists with and without them.
    refers_to_options: Mapped[bool] = mapped_column(Boolean)
    sorted_numeric: Mapped[bool] = mapped_column(Boolean)
    extra: Mapped[Any | None] = mapped_column(JsonDocument)

    options: Mapped[list["QuestionOption"]] = relationship(order_by="QuestionOption.ordinal")


class QuestionOption(Base):
    """An option, identified by its ordinal and not by its text, because real benchmarks contain equal options."""

    __tablename__ = "question_option"

    question_id: Mapped[int] = mapped_column(ForeignKey("question.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    text: Mapped[str] = mapped_column(Text)


class Model(Base):
    """A model, identified by its name; its weights and their identity are in its revisions."""

    __tablename__ = "model"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    earlier_names: Mapped[list[str] | None] = mapped_column(JsonDocument)
    """Names before it was renamed, oldest first. Specifications use the first name."""
    family: Mapped[str | None] = mapped_column(Text)
    developer: Mapped[str | None] = mapped_column(Text)
    parameters: Mapped[int | None] = mapped_column(RowId)
    licence: Mapped[str | None] = mapped_column(Text)
    released: Mapped[str | None] = mapped_column(Text)
    """The day of its release, YYYY-MM-DD."""
    url: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())

    revisions: Mapped[list["ModelRevision"]] = relationship(back_populates="model", order_by="ModelRevision.number")


class ModelRevision(Base):
    """One set of weights with one tokenizer, in one precision. It can be used once a worker has hashed its files."""

    __tablename__ = "model_revision"
    __table_args__ = (
        UniqueConstraint("model_id", "number"),
        one_of("kind", MODEL_KINDS),
        one_of("state", REVISION_STATES),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    model_id: Mapped[int] = mapped_column(ForeignKey("model.id"))
    number: Mapped[int] = mapped_column(Integer)
    kind: Mapped[str] = mapped_column(Text)
    location: Mapped[str | None] = mapped_column(Text)
    requested_revision: Mapped[str | None] = mapped_column(Text)
    revision: Mapped[str | None] = mapped_column(Text)
    dtype: Mapped[str | None] = mapped_column(Text)
    quantisation: Mapped[str | None] = mapped_column(Text)
    adapter: Mapped[str | None] = mapped_column(Text)
    """The adapter's folder, or its name on the hub with `@REVISION`. NULL without an adapter."""
    adapter_commit: Mapped[str | None] = mapped_column(Text)
    adapter_merged: Mapped[bool | None] = mapped_column(Boolean)
    """Whether the adapter is merged into the base's weights, instead of being computed next to them."""
    base_digest: Mapped[str | None] = mapped_column(Digest)
    adapter_digest: Mapped[str | None] = mapped_column(Digest)
    """`weights_digest` is computed from this digest and `base_digest`."""
    weights_digest: Mapped[str | None] = mapped_column(Digest)
    tokenizer_digest: Mapped[str | None] = mapped_column(Digest)
    chat_template: Mapped[str | None] = mapped_column(Text)
    chat_template_digest: Mapped[str | None] = mapped_column(Digest)
    thinking: Mapped[Any | None] = mapped_column(JsonDocument)
    """The settings for thinking that its server supports (registry/queue/thinking.py).

    NULL for a model that is loaded here, or if the server reveals nothing.
    """
    state: Mapped[str] = mapped_column(Text, default="registered")
    error: Mapped[str | None] = mapped_column(Text)
    prepared_by: Mapped[str | None] = mapped_column(String(36))
    """The worker that downloads and hashes its files, so that no other worker does. NULL if none does."""
    prepare_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When another worker may take over, by the database's clock."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())

    model: Mapped[Model] = relationship(back_populates="revisions")


class Protocol(Base):
    """The form of a model's prompts and the reading of its answers: immutable, identified by its digest."""

    __tablename__ = "protocol"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    digest: Mapped[str] = mapped_column(Digest, unique=True)
    name: Mapped[str] = mapped_column(Text)
    shots: Mapped[int] = mapped_column(SmallInteger)
    definition: Mapped[Any] = mapped_column(JsonDocument)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class VariantSet(Base):
    """A kind of variants with its parameters; `name` is the canonical spelling, such as `shuffle:m=2,seed=0`."""

    __tablename__ = "variant_set"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    digest: Mapped[str] = mapped_column(Digest, unique=True)
    name: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(SmallInteger)
    parameters: Mapped[Any] = mapped_column(JsonDocument)
    # Maps each inserted option (its negative ordinal, as text) to the text that was shown.
    inserted: Mapped[Any] = mapped_column(JsonDocument)
    content: Mapped[Any | None] = mapped_column(JsonDocument)
    """The content of the file that a parameter names; NULL without a file. The parameter contains its digest."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class Variant(Base):
    """The name of a variant with this ordinal, for questions with this number of options."""

    __tablename__ = "variant"

    variant_set_id: Mapped[int] = mapped_column(ForeignKey("variant_set.id"), primary_key=True)
    n_options: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    ordinal: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    name: Mapped[str] = mapped_column(Text)


class EngineFingerprint(Base):
    """Everything outside the specification that could change a number: code, packages, device, settings."""

    __tablename__ = "engine_fingerprint"

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    digest: Mapped[str] = mapped_column(Digest, unique=True)
    document: Mapped[Any] = mapped_column(JsonDocument)


class RegistryGeneration(Base):
    """The single row with the registry's generation and the place for which it was drawn."""

    __tablename__ = "registry_generation"

    generation: Mapped[str] = mapped_column(String(36), primary_key=True)
    place: Mapped[str | None] = mapped_column(Text)
    """See `registry.db.registry_place`. NULL in a backup, which has no place."""
    reason: Mapped[str] = mapped_column(Text)
    drawn_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Worker(Base):
    """A worker process, alive while `last_seen` is recent and `stopped_at` is NULL."""

    __tablename__ = "worker"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    host: Mapped[str] = mapped_column(Text)
    pid: Mapped[int] = mapped_column(Integer)
    device: Mapped[str] = mapped_column(Text)
    scopes: Mapped[Any] = mapped_column(JsonDocument, default=list)
    """The scopes by which an exclusion can name this worker: its kind of device, its host, its device."""
    versions: Mapped[Any] = mapped_column(JsonDocument)
    """Maps each package to its version; that of `shuffleboard` includes the commit."""
    loaded_model_revision_id: Mapped[int | None] = mapped_column(ForeignKey("model_revision.id"))
    queues: Mapped[Any | None] = mapped_column(JsonDocument)
    """The queues that it serves; NULL for a worker from before this column."""
    token_budgets: Mapped[Any | None] = mapped_column(JsonDocument)
    """Maps a model revision's id, as text, to the tokens of a batch that fits in memory after a larger one did not."""
    started_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    last_seen: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    stopped_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """NULL if it was never stopped properly, for example because it was killed."""


class Evaluation(Base):
    """A model revision on a benchmark version under a protocol and a variant set.

    The same specification is the same evaluation unless a new replicate is requested.
    """

    __tablename__ = "evaluation"
    __table_args__ = (
        UniqueConstraint("specification_digest", "replicate"),
        one_of("state", EVALUATION_STATES),
        CheckConstraint("(seal IS NULL) = (sealed_at IS NULL)", name="sealed"),
        Index("ix_evaluation_state", "state"),
        # For the leaderboard: which evaluations are comparable, and whether a newer replicate replaces one.
        Index(
            "ix_evaluation_comparable",
            "asked_digest",
            "id",
            postgresql_include=["model_revision_id", "questions"],
            postgresql_where=text("seal IS NOT NULL"),
            sqlite_where=text("seal IS NOT NULL"),
        ),
        Index(
            "ix_evaluation_replicated",
            "specification_digest",
            postgresql_where=text("replicate > 0"),
            sqlite_where=text("replicate > 0"),
        ),
        Index("ix_evaluation_seal", "seal"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    specification: Mapped[Any] = mapped_column(JsonDocument)
    """The model, questions, variants and protocol, without database ids."""
    specification_digest: Mapped[str] = mapped_column(Digest)
    asked_digest: Mapped[str] = mapped_column(Digest)
    """Equal for evaluations of the same questions and variants under the same protocol:
    `registry.scores.asked.compute_asked_digest`.
    """
    replicate: Mapped[int] = mapped_column(Integer, default=0)
    """0 for the first evaluation of a specification; each requested repetition gets the next number."""
    model_revision_id: Mapped[int] = mapped_column(ForeignKey("model_revision.id"), index=True)
    benchmark_version_id: Mapped[int] = mapped_column(ForeignKey("benchmark_version.id"), index=True)
    protocol_id: Mapped[int] = mapped_column(ForeignKey("protocol.id"))
    variant_set_id: Mapped[int] = mapped_column(ForeignKey("variant_set.id"))
    state: Mapped[str] = mapped_column(Text, default="queued")
    priority: Mapped[int] = mapped_column(Integer, default=0)
    max_workers: Mapped[int | None] = mapped_column(Integer)
    """Maximum number of workers that score it at once; NULL for no limit."""
    requester: Mapped[str | None] = mapped_column(Text)
    """Name of the account at that time."""
    questions: Mapped[int] = mapped_column(Integer)
    """Number of questions."""
    prompts: Mapped[int] = mapped_column(Integer)
    """Number of prompts."""
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    failed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Time of the last failure."""
    sealed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    seal: Mapped[str | None] = mapped_column(Digest)
    """Digest of everything that was scored; NULL until it is complete."""
    seal_version: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of the seal's format (`registry.formats.SEAL`); NULL if not sealed."""
    # Facts about its prompts, stored when it is sealed: see `registry.scores.asked`.
    distinct_prompts_min: Mapped[int | None] = mapped_column(SmallInteger)
    """Smallest number of distinct prompts that show one of its questions."""
    distinct_prompts_max: Mapped[int | None] = mapped_column(SmallInteger)
    variants_max: Mapped[int | None] = mapped_column(SmallInteger)
    """Largest number of prompts that show one of its questions, including repeats."""
    orders_only: Mapped[bool | None] = mapped_column(Boolean)
    """Whether no prompt alters options or labels."""
    chance: Mapped[float | None] = mapped_column(Double)
    """Accuracy of guessing: the mean of 1 / number of options."""
    # Facts about its written answers, stored when it is sealed: see `registry.scores.written`.
    unread: Mapped[int | None] = mapped_column(Integer)
    """Number of texts in which no rule found an answer."""
    unfinished: Mapped[int | None] = mapped_column(Integer)
    """Number of answers that were cut off at a limit, or whose thought did not end."""
    tokens_per_answer: Mapped[float | None] = mapped_column(Double)
    """Mean number of tokens that were written per prompt, including the thought."""
    thought_tokens_per_answer: Mapped[float | None] = mapped_column(Double)
    # Copies from the specification, for views.
    sampled_from: Mapped[int | None] = mapped_column(Integer)
    """Number of questions from which the sample was drawn; NULL without a sample."""
    sample_seed: Mapped[int | None] = mapped_column(Integer)
    """Seed of the sample."""
    repeats: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of answers to each prompt: answer r of variant v is variant v · repeats + r. NULL for recorded answers."""
    lists_options: Mapped[bool] = mapped_column(Boolean, default=True, server_default=text("true"))
    """Whether prompts list the options; if not, all orders of the options give the same prompt."""
    samples: Mapped[bool | None] = mapped_column(Boolean)
    """Whether the model draws its answers at random; NULL if unknown, as for imported answers."""
    conflict_of_interest: Mapped[str | None] = mapped_column(Text)
    """The submitter's statement: `none`, or the tie to the model's maker; NULL if nothing was stated."""
    replayed_from: Mapped[str | None] = mapped_column(Digest, index=True)
    """Seal of the evaluation whose stored answers it uses with another key or reading; NULL if it is no replay."""
    recorded: Mapped[bool] = mapped_column(
        Boolean, default=False, server_default=text("false"), info={"sealed_since": 2}
    )
    """Whether the answers were imported: variants with the same prompt then have independent answers.

    Otherwise they share one answer for each repeat, which is copied. Also false for imports from before this column.
    """

    model_revision: Mapped[ModelRevision] = relationship()
    benchmark_version: Mapped[BenchmarkVersion] = relationship()
    protocol: Mapped[Protocol] = relationship()
    variant_set: Mapped[VariantSet] = relationship()


class Shard(Base):
    """A slice of an evaluation's questions, scored by one worker at a time."""

    __tablename__ = "shard"
    __table_args__ = (
        UniqueConstraint("evaluation_id", "ordinal"),
        one_of("state", SHARD_STATES),
        one_of("queue", QUEUES),
        CheckConstraint("(state = 'leased') = (lease_until IS NOT NULL)", name="lease"),
        # For finding the next shard to claim.
        Index("ix_shard_free", "state", "queue", "evaluation_id", "id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"))
    ordinal: Mapped[int] = mapped_column(Integer)
    queue: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text, default="queued")
    prompts: Mapped[int] = mapped_column(Integer)
    fence: Mapped[int] = mapped_column(Integer, default=0)
    """Raised by every claim; only the owner of the newest claim may finish the shard."""
    lease_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """When another worker may claim it, by the database's clock."""
    not_before: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Earliest time of the next claim, after a failure or while waiting for a provider's batch."""
    failures: Mapped[int] = mapped_column(SmallInteger, default=0)
    """Number of exceptions while it was scored."""
    crashes: Mapped[int] = mapped_column(SmallInteger, default=0)
    """Number of leases that expired."""
    stalled_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    """Time at which it was last taken from a hung worker."""
    stalled_worker_id: Mapped[str | None] = mapped_column(Text)
    """The hung worker, whose row may have been deleted since."""
    error: Mapped[str | None] = mapped_column(Text)
    worker_id: Mapped[str | None] = mapped_column(ForeignKey("worker.id"))
    registry_generation: Mapped[str | None] = mapped_column(String(36))
    """The registry's generation at the last claim."""
    engine_fingerprint_id: Mapped[int | None] = mapped_column(ForeignKey("engine_fingerprint.id"))
    tokens_naive: Mapped[int | None] = mapped_column(RowId)
    """Number of tokens in all its prompts."""
    tokens_computed: Mapped[int | None] = mapped_column(RowId)
    """Number of tokens that the model processed; the others were shared between prompts."""
    elapsed_s: Mapped[float | None] = mapped_column(Double)
    """Total seconds of scoring."""
    matching_s: Mapped[float | None] = mapped_column(Double)
    """The part of `elapsed_s` that was spent on matching answers with options."""
    claimed_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcDateTime)

    evaluation: Mapped[Evaluation] = relationship()


class Exclusion(Base):
    """Work that a kind of device, a host or a single device cannot do, so that other workers must do it.

    The work is either a complete model revision or one shard.
    """

    __tablename__ = "exclusion"
    __table_args__ = (
        CheckConstraint("(model_revision_id IS NULL) <> (shard_id IS NULL)", name="of_one"),
        Index("ix_exclusion_model_revision_id", "model_revision_id"),
        Index("ix_exclusion_shard_id", "shard_id"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    scope: Mapped[str] = mapped_column(Text)
    """One of the worker's `scopes`."""
    model_revision_id: Mapped[int | None] = mapped_column(ForeignKey("model_revision.id"))
    shard_id: Mapped[int | None] = mapped_column(ForeignKey("shard.id"))
    lasting: Mapped[bool] = mapped_column(Boolean)
    """Whether another attempt there would fail, too, for example because the memory is too small."""
    error: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class EvaluationQuestion(Base):
    """A question of an evaluation, and its expected number of variants.

    It distinguishes a question without predictions ("not submitted") from predictions without a choice ("no valid
    answer").
    """

    __tablename__ = "evaluation_question"
    __table_args__ = (
        Index("ix_evaluation_question_question_id", "question_id"),
        Index("ix_evaluation_question_shard_id", "shard_id"),
    )

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    question_id: Mapped[int] = mapped_column(ForeignKey("question.id"), primary_key=True)
    n_variants: Mapped[int] = mapped_column(SmallInteger)
    """Expected number of predictions."""
    shard_id: Mapped[int] = mapped_column(ForeignKey("shard.id"))

    score: Mapped["QuestionScore | None"] = relationship(viewonly=True)


class Prediction(Base):
    """The result of one prompt. It includes the order that was shown, so that reading it needs no code."""

    __tablename__ = "prediction"
    __table_args__ = (
        ForeignKeyConstraint(
            ["evaluation_id", "question_id"], ["evaluation_question.evaluation_id", "evaluation_question.question_id"]
        ),
        CheckConstraint("(chosen_position IS NULL) = (chosen_option IS NULL)", name="chosen"),
        CheckConstraint("chosen_position IS NOT NULL OR NOT correct", name="correct"),
        CheckConstraint("state IS NULL OR chosen_position IS NULL", name="unanswered"),
        one_of("state", UNANSWERED_STATES),
        _check_between("answer_probability", 0, 1),
        _check_between("brier_score", 0, 2),
        _check_between("entropy", 0, 1),
        _check_between("label_mass", 0, 1.000001),
        CheckConstraint(
            "0 <= ALL (label_probabilities) AND 1 >= ALL (label_probabilities)", name="label_probabilities"
        ).ddl_if(dialect="postgresql"),
        CheckConstraint("npsq_correct > '-Infinity' AND npsq_correct <= 1", name="npsq_correct").ddl_if(
            dialect="postgresql"
        ),
        CheckConstraint(
            "'-Infinity' < ALL (label_logprobs) AND 0 >= ALL (label_logprobs)", name="label_logprobs"
        ).ddl_if(dialect="postgresql"),
        Index(
            "ix_prediction_reused_from",
            "reused_from_evaluation_id",
            postgresql_where=text("reused_from_evaluation_id IS NOT NULL"),
            sqlite_where=text("reused_from_evaluation_id IS NOT NULL"),
        ),
    )

    evaluation_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    question_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    variant: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    prompt_key: Mapped[int] = mapped_column(SmallInteger)
    """Number of the prompt within the question, shared by repeats of the prompt.

    It can be computed from sealed columns, so it is not sealed (`registry.prompting.prompts.PromptKeys`).
    """
    shown: Mapped[list[int]] = mapped_column(SmallIntArray)
    """The option at each position; the other arrays have the same order."""
    question_shown: Mapped[bool] = mapped_column(Boolean)
    """False if the question was replaced by an empty string."""
    own_options: Mapped[bool] = mapped_column(Boolean)
    """Whether exactly the question's own options were shown."""
    unchanged: Mapped[bool] = mapped_column(Boolean)
    """Whether the benchmark's own question was shown, without any change."""
    prompt_digest: Mapped[str | None] = mapped_column(Digest)
    chosen_position: Mapped[int | None] = mapped_column(SmallInteger)
    """NULL: no valid answer."""
    chosen_option: Mapped[int | None] = mapped_column(SmallInteger)
    """NULL: no valid answer."""
    correct: Mapped[bool] = mapped_column(Boolean)
    tied: Mapped[bool] = mapped_column(Boolean)
    """Whether other options were equally probable; the first position was chosen."""
    extraction_rule: Mapped[str | None] = mapped_column(Text)
    """The rule that found the answer in the text."""
    state: Mapped[str | None] = mapped_column(Text)
    """`unfinished`, `empty` or `refused`; NULL: `answered` if there is an answer, otherwise `unread`."""
    label_logprobs: Mapped[list[float] | None] = mapped_column(DoubleArray)
    label_probabilities: Mapped[list[float] | None] = mapped_column(DoubleArray)
    """Probabilities renormalised over the labels shown."""
    label_mass: Mapped[float | None] = mapped_column(Double)
    """Sum of the labels' probabilities before normalisation."""
    answer_probability: Mapped[float | None] = mapped_column(Double)
    """Probability of the right option."""
    brier_score: Mapped[float | None] = mapped_column(Double)
    entropy: Mapped[float | None] = mapped_column(Double)
    logprobs_without_question: Mapped[list[float] | None] = mapped_column(DoubleArray)
    """Log-probabilities of the same options in the same order, without the question."""
    accuracy_normalized: Mapped[bool | None] = mapped_column(Boolean)
    npsq_correct: Mapped[float | None] = mapped_column(Double)
    npsq_accuracy: Mapped[bool | None] = mapped_column(Boolean)
    choice_only_accuracy: Mapped[bool | None] = mapped_column(Boolean)
    choice_sensitivity: Mapped[bool | None] = mapped_column(Boolean)
    choice_sensitivity_normalized: Mapped[bool | None] = mapped_column(Boolean)
    # The sealed evaluation and the variant from which this result was copied, because the prompt was the same. The seal
    # identifies the evaluation in every registry, its number only in the registry that made the copy.
    reused_from_evaluation_id: Mapped[int | None] = mapped_column(RowId)
    reused_from_variant: Mapped[int | None] = mapped_column(SmallInteger)
    reused_from_seal: Mapped[str | None] = mapped_column(Digest)

    generation: Mapped["Generation | None"] = relationship(viewonly=True)


class Generation(Base):
    """The text that a model wrote for one prompt: its answer, and its thought in a separate column.

    `extracted`: the answer in the text. `finished`: whether the model or a stop sequence ended the text, rather than
    the limit of tokens. For imported texts all columns but the text are NULL.

    `thought`: compressed (`predictions.texts`), NULL if there is none or thoughts are not stored; its digest and length
    are stored in any case. If the thought was part of the text, it includes its markers, so that thought and text
    together are the model's output; if it was separate (`thought_apart`), it is stored as returned. `thought_opened`:
    whether the template had opened it. `thought_tokens`: part of `tokens`. `forced`: whether the thought was closed at
    its limit. `seconds`: from the request to the last token.
    """

    __tablename__ = "generation"
    __table_args__ = (
        ForeignKeyConstraint(
            ["evaluation_id", "question_id", "variant"],
            ["prediction.evaluation_id", "prediction.question_id", "prediction.variant"],
        ),
    )

    evaluation_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    question_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    variant: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    text: Mapped[str] = mapped_column(Text)
    extracted: Mapped[str | None] = mapped_column(Text)
    tokens: Mapped[int | None] = mapped_column(Integer)
    finished: Mapped[bool | None] = mapped_column(Boolean)
    seconds: Mapped[float | None] = mapped_column(Double)
    forced: Mapped[bool | None] = mapped_column(Boolean)
    thought: Mapped[bytes | None] = mapped_column(LargeBinary)
    thought_digest: Mapped[str | None] = mapped_column(Digest)
    """SHA-256 of the thought's text."""
    thought_characters: Mapped[int | None] = mapped_column(Integer)
    thought_tokens: Mapped[int | None] = mapped_column(Integer)
    thought_apart: Mapped[bool | None] = mapped_column(Boolean)
    thought_opened: Mapped[bool | None] = mapped_column(Boolean)


class Archive(Base):
    """The folder of a sealed evaluation with its predictions and texts, named after the seal and the folder's digest.

    `written`: predictions are also in their tables; `archived`: only in the folder. The state is `archiving` or
    `restoring` only within the transaction that moves them, so that the triggers of both tables allow it; it is never
    committed.
    """

    __tablename__ = "archive"
    __table_args__ = (one_of("state", ARCHIVE_STATES),)

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    state: Mapped[str] = mapped_column(Text)
    location: Mapped[str] = mapped_column(Text)
    """URL of the store that contains the folder."""
    digest: Mapped[str] = mapped_column(Digest)
    """SHA-256 of the folder's `evaluation.json`, which contains the digests of the other files."""
    size: Mapped[int] = mapped_column(BigInteger)
    """Total size of its files, in bytes."""
    predictions: Mapped[int] = mapped_column(Integer)
    texts: Mapped[int] = mapped_column(Integer)
    written_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class QuestionScore(Base):
    """Sufficient statistics of one question, stored with its predictions; equal to the view `question_statistics`."""

    __tablename__ = "question_score"
    __table_args__ = (
        ForeignKeyConstraint(
            ["evaluation_id", "question_id"], ["evaluation_question.evaluation_id", "evaluation_question.question_id"]
        ),
    )

    evaluation_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    question_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    expected: Mapped[int] = mapped_column(SmallInteger)
    """Number of planned variants."""
    stored: Mapped[int] = mapped_column(SmallInteger)
    """Number of stored predictions."""
    original_correct: Mapped[bool | None] = mapped_column(Boolean)
    original_answered: Mapped[bool | None] = mapped_column(Boolean)
    """Whether the original variant has a valid answer."""
    variants: Mapped[int] = mapped_column(SmallInteger)
    """Number of variants that show the question with exactly its own options."""
    valid: Mapped[int] = mapped_column(SmallInteger)
    """Number of these variants with a valid answer."""
    correct: Mapped[int] = mapped_column(SmallInteger)
    """Number of these variants with the right answer."""
    tied: Mapped[int] = mapped_column(SmallInteger)
    """Number of these variants with another equally probable option."""
    first_option: Mapped[int | None] = mapped_column(SmallInteger)
    """The answer to the first of these variants."""
    agreeing: Mapped[int] = mapped_column(SmallInteger)
    """Number of these variants with that answer."""
    equal_pairs: Mapped[int | None] = mapped_column(Integer)
    """Number of pairs of these variants with the same answer."""
    others: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of variants other than the original order."""
    others_correct: Mapped[int | None] = mapped_column(SmallInteger)
    shown: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of variants that show the question."""
    shown_correct: Mapped[int | None] = mapped_column(SmallInteger)
    probability_variants: Mapped[int | None] = mapped_column(SmallInteger)
    answer_probability_sum: Mapped[float | None] = mapped_column(Double)
    brier_score_sum: Mapped[float | None] = mapped_column(Double)
    entropy_sum: Mapped[float | None] = mapped_column(Double)
    accuracy_normalized: Mapped[bool | None] = mapped_column(Boolean)
    npsq_correct: Mapped[float | None] = mapped_column(Double)
    npsq_accuracy: Mapped[bool | None] = mapped_column(Boolean)
    choice_only_accuracy: Mapped[bool | None] = mapped_column(Boolean)
    choice_sensitivity: Mapped[bool | None] = mapped_column(Boolean)
    choice_sensitivity_normalized: Mapped[bool | None] = mapped_column(Boolean)
    distinct_prompts: Mapped[int | None] = mapped_column(SmallInteger)
    own_prompts: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of distinct prompts with exactly the question's own options."""
    answers: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of answers to prompts that show the question, including repeats."""
    repeated_prompts: Mapped[int | None] = mapped_column(SmallInteger)
    """Number of prompts with the question's own options that were answered several times, independently."""
    average_accuracy: Mapped[float | None] = mapped_column(Double)
    repeated_accuracy: Mapped[float | None] = mapped_column(Double)
    """Mean share of right answers over the prompts that were answered several times."""
    right_in_every_order: Mapped[float | None] = mapped_column(Double)
    right_twice_same_order: Mapped[float | None] = mapped_column(Double)
    right_twice_across_orders: Mapped[float | None] = mapped_column(Double)
    worst_order_low: Mapped[float | None] = mapped_column(Double)
    worst_order_high: Mapped[float | None] = mapped_column(Double)


class QuestionSeal(Base):
    """The part of an evaluation's seal that covers one question, stored so that a change can be traced to its question.

    `leaf`: the digest that the seal covers. `prompts`: SHA-256 over the digests of the question's prompts; NULL if the
    prompts are unknown. Few-shot examples that were shown have a row as well, without prompts. Append-only.
    """

    __tablename__ = "question_seal"

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    question_id: Mapped[int] = mapped_column(ForeignKey("question.id"), primary_key=True)
    leaf: Mapped[str] = mapped_column(Digest)
    prompts: Mapped[str | None] = mapped_column(Digest)


class EvaluationSource(Base):
    """A sealed evaluation from which another copied results: its seal, and the number of predictions. Append-only."""

    __tablename__ = "evaluation_source"

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    seal: Mapped[str] = mapped_column(Digest, primary_key=True, index=True)
    predictions: Mapped[int] = mapped_column(Integer)


class Withdrawal(Base):
    """A sealed evaluation that no longer counts: it was wrong, or another one replaces it. Append-only.

    `superseded_by`: seal of the replacement. `actor`: the account that withdrew it. Only the newest row of an
    evaluation counts.
    """

    __tablename__ = "withdrawal"
    __table_args__ = (
        one_of("kind", WITHDRAWAL_KINDS),
        CheckConstraint("(kind = 'superseded') = (superseded_by IS NOT NULL)", name="superseded_by"),
        CheckConstraint("reason <> ''", name="reason"),
    )

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), index=True)
    kind: Mapped[str] = mapped_column(Text)
    superseded_by: Mapped[str | None] = mapped_column(Digest)
    reason: Mapped[str] = mapped_column(Text)
    actor: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class ChainLink(Base):
    """A seal, folder, withdrawal or snapshot, in the order of their creation. Append-only.

    `subject`: digest of the object. `labels`: for a seal, the digest of the requester and of this registry's names for
    model and benchmark, which the seal leaves out; for a folder, the evaluation's seal. `digest` covers all columns,
    and through `previous` every earlier link.
    """

    __tablename__ = "chain_link"
    __table_args__ = (one_of("kind", LINK_KINDS), CheckConstraint("position >= 1", name="position"))

    position: Mapped[int] = mapped_column(RowId, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(Text)
    subject: Mapped[str] = mapped_column(Digest, index=True)
    labels: Mapped[str | None] = mapped_column(Digest)
    at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    previous: Mapped[str] = mapped_column(Digest, unique=True)
    digest: Mapped[str] = mapped_column(Digest, unique=True)


class ChainSignature(Base):
    """A signature of the chain's head.

    `statement`: the signed text. `public_key`: the key as PEM; `key`: its fingerprint. `signature`: in base64.
    """

    __tablename__ = "chain_signature"
    __table_args__ = (Index("ix_chain_signature_position", "position"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    position: Mapped[int] = mapped_column(RowId)
    head: Mapped[str] = mapped_column(Digest)
    key: Mapped[str] = mapped_column(Digest)
    public_key: Mapped[str] = mapped_column(Text)
    statement: Mapped[str] = mapped_column(Text)
    signature: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime] = mapped_column(UtcDateTime)


class SubjectCategory(Base):
    """The category of a subject. `source`: the author of the grouping."""

    __tablename__ = "subject_category"

    category: Mapped[str] = mapped_column(Text, primary_key=True)
    subject: Mapped[str] = mapped_column(Text, primary_key=True)
    source: Mapped[str] = mapped_column(Text)


class EvaluationMetric(Base):
    """A metric of an evaluation over a scope: "all", "unflagged" or "subject:…". Append-only.

    `value` NULL: undefined. `n`: number of questions.
    """

    __tablename__ = "evaluation_metric"
    __table_args__ = (
        # For the leaderboard, which sorts by one metric over all questions.
        Index(
            "ix_evaluation_metric_metric",
            "metric",
            "evaluation_id",
            postgresql_include=["definition_version", "value"],
            postgresql_where=text("scope = 'all'"),
            sqlite_where=text("scope = 'all'"),
        ),
    )

    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"), primary_key=True)
    scope: Mapped[str] = mapped_column(Text, primary_key=True)
    metric: Mapped[str] = mapped_column(Text, primary_key=True)
    definition_version: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    value: Mapped[float | None] = mapped_column(Double)
    n: Mapped[int] = mapped_column(Integer)
    interval_low: Mapped[float | None] = mapped_column(Double)
    interval_high: Mapped[float | None] = mapped_column(Double)
    computed_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    # NULL: no interval was computed yet. "none": no interval is stated, because it would not cover the value reliably.
    interval_method: Mapped[str | None] = mapped_column(Text)
    interval_resamples: Mapped[int | None] = mapped_column(Integer)
    interval_seed: Mapped[int | None] = mapped_column(Integer)
    code_version: Mapped[str | None] = mapped_column(Text)
    """Version and commit of the code that computed the value. NULL for values from before this column."""


class QuestionPride(Base):
    """PriDe's answer to one question, which depends on the other questions; stored when the evaluation is sealed.

    `estimation`: whether the prior was estimated from this question. `correct` NULL: probabilities are missing.
    """

    __tablename__ = "question_pride"
    __table_args__ = (
        ForeignKeyConstraint(
            ["evaluation_id", "question_id"], ["evaluation_question.evaluation_id", "evaluation_question.question_id"]
        ),
    )

    evaluation_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    question_id: Mapped[int] = mapped_column(RowId, primary_key=True)
    estimation: Mapped[bool] = mapped_column(Boolean)
    correct: Mapped[bool | None] = mapped_column(Boolean)


class Analysis(Base):
    """Another result computed from a sealed evaluation, with all of its inputs. Append-only."""

    __tablename__ = "analysis"
    __table_args__ = (UniqueConstraint("evaluation_id", "kind", "parameters_digest"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    evaluation_id: Mapped[int] = mapped_column(ForeignKey("evaluation.id"))
    kind: Mapped[str] = mapped_column(Text)
    parameters: Mapped[Any] = mapped_column(JsonDocument)
    parameters_digest: Mapped[str] = mapped_column(Digest)
    result: Mapped[Any] = mapped_column(JsonDocument)
    computed_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class Suite(Base):
    """A named, versioned list of tasks with their protocols and variants."""

    __tablename__ = "suite"
    __table_args__ = (UniqueConstraint("name", "version"), UniqueConstraint("name", "digest"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(Integer)
    digest: Mapped[str] = mapped_column(Digest)
    definition: Mapped[Any] = mapped_column(JsonDocument)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())


class Board(Base):
    """A suite on certain benchmark versions, with the columns to show. The newest version of each name is used.

    The digest covers the definition and the contents of the benchmarks, so that nothing a board depends on can change.
    """

    __tablename__ = "board"
    __table_args__ = (UniqueConstraint("name", "version"), UniqueConstraint("name", "digest"))

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    version: Mapped[int] = mapped_column(Integer)
    digest: Mapped[str] = mapped_column(Digest)
    suite_id: Mapped[int] = mapped_column(ForeignKey("suite.id"))
    definition: Mapped[Any] = mapped_column(JsonDocument)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())

    suite: Mapped[Suite] = relationship()
    entries: Mapped[list["BoardEntry"]] = relationship(order_by="BoardEntry.ordinal")


class BoardEntry(Base):
    """One evaluation that a board requires of every model.

    Entries with the same task and variants pool their questions.
    """

    __tablename__ = "board_entry"

    board_id: Mapped[int] = mapped_column(ForeignKey("board.id"), primary_key=True)
    ordinal: Mapped[int] = mapped_column(SmallInteger, primary_key=True)
    task: Mapped[str] = mapped_column(Text)
    benchmark_version_id: Mapped[int] = mapped_column(ForeignKey("benchmark_version.id"), index=True)
    protocol_id: Mapped[int] = mapped_column(ForeignKey("protocol.id"))
    variant_set_id: Mapped[int] = mapped_column(ForeignKey("variant_set.id"))
    question_filter: Mapped[Any] = mapped_column(JsonDocument)
    questions: Mapped[int] = mapped_column(Integer)

    benchmark_version: Mapped[BenchmarkVersion] = relationship()
    protocol: Mapped[Protocol] = relationship()
    variant_set: Mapped[VariantSet] = relationship()


class BoardSnapshot(Base):
    """A board at one time, made when an evaluation of it is sealed, and stored permanently.

    `digest` covers `document`: the definition, the rows, and the seals of their evaluations.
    """

    __tablename__ = "board_snapshot"
    __table_args__ = (Index("ix_board_snapshot_board_id_as_of", "board_id", "as_of"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    board_id: Mapped[int] = mapped_column(ForeignKey("board.id"))
    as_of: Mapped[datetime] = mapped_column(UtcDateTime, default=database_now())
    digest: Mapped[str] = mapped_column(Digest, index=True)
    document: Mapped[Any] = mapped_column(JsonDocument)

    board: Mapped[Board] = relationship()


class BoardStanding(Base):
    """A model revision's value in one column of a snapshot, with its rank among the complete models.

    `value` NULL: a part of it is missing or undefined. Ranks are NULL until every entry of the board is sealed.
    `rank_low` … `rank_high`: percentile interval of the rank. Models of one `tier` cannot be distinguished. These are
    for each model separately; `all_rank_low`, `all_rank_high` and `all_tier` are for all models together.
    """

    __tablename__ = "board_standing"

    board_snapshot_id: Mapped[int] = mapped_column(ForeignKey("board_snapshot.id"), primary_key=True)
    model_revision_id: Mapped[int] = mapped_column(ForeignKey("model_revision.id"), primary_key=True)
    column: Mapped[str] = mapped_column("column_name", Text, primary_key=True)
    metric: Mapped[str] = mapped_column(Text)
    variant_set_id: Mapped[int] = mapped_column(ForeignKey("variant_set.id"))
    protocol_id: Mapped[int] = mapped_column(ForeignKey("protocol.id"))
    complete: Mapped[bool] = mapped_column(Boolean)
    value: Mapped[float | None] = mapped_column(Double)
    n: Mapped[int] = mapped_column(Integer)
    interval_low: Mapped[float | None] = mapped_column(Double)
    interval_high: Mapped[float | None] = mapped_column(Double)
    rank: Mapped[int | None] = mapped_column(Integer)
    rank_low: Mapped[int | None] = mapped_column(Integer)
    rank_high: Mapped[int | None] = mapped_column(Integer)
    tier: Mapped[int | None] = mapped_column(Integer)
    all_rank_low: Mapped[int | None] = mapped_column(Integer)
    all_rank_high: Mapped[int | None] = mapped_column(Integer)
    all_tier: Mapped[int | None] = mapped_column(Integer)


class PublishedResult(Base):
    """A number printed in a paper, which is never mixed with measured numbers.

    `printed`: with the paper's digits. `metric`: the paper's name; `registry_metric` and `registry_value`: our metric
    of the same meaning, and the value in our unit, if there is one. `ordinal`: line of the transcription.
    """

    __tablename__ = "published_result"
    __table_args__ = (UniqueConstraint("source", "ordinal"),)

    id: Mapped[int] = mapped_column(RowId, primary_key=True)
    source: Mapped[str] = mapped_column(Text)
    ordinal: Mapped[int] = mapped_column(Integer)
    paper: Mapped[str] = mapped_column(Text)
    table: Mapped[str] = mapped_column("paper_table", Text)
    section: Mapped[str | None] = mapped_column(Text)
    model: Mapped[str | None] = mapped_column(Text)
    benchmark: Mapped[str | None] = mapped_column(Text)
    protocol: Mapped[str | None] = mapped_column(Text)
    target: Mapped[str | None] = mapped_column(Text)
    metric: Mapped[str] = mapped_column(Text)
    printed: Mapped[str] = mapped_column(Text)
    value: Mapped[float] = mapped_column(Double)
    unit: Mapped[str | None] = mapped_column(Text)
    rank: Mapped[int | None] = mapped_column(Integer)
    standard_deviation: Mapped[float | None] = mapped_column(Double)
    registry_metric: Mapped[str | None] = mapped_column(Text)
    registry_value: Mapped[float | None] = mapped_column(Double)
