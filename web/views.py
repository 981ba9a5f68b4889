"""The SQL views as things to select from, with the Python type of each column that the pages read."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Double, Executable, FromClause, Text, column, table
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeEngine

from registry.db import Digest, DoubleArray, JsonDocument, SmallIntArray, UtcDateTime
from registry.metrics import METRICS
from registry.metrics.catalogue import ALL_NAMES

Row = dict[str, Any]


def _view(name: str, types: Mapping[TypeEngine[Any], str]) -> FromClause:
    """An SQL view as something to select from; types: type to the names of its columns."""
    return table(name, *(column(key, kind) for kind, names in types.items() for key in names.split()))


leaderboard: Final = _view(
    "leaderboard",
    {
        BigInteger(): "evaluation_id revision parameters shots replicate questions scored",
        Text(): "model family kind dtype quantisation benchmark benchmark_version protocol variants state",
        Boolean(): "complete mixed_engines copies_withdrawn",
        UtcDateTime(): "sealed_at",
        Double(): " ".join(ALL_NAMES),
    },
)
evaluation_metrics: Final = _view(
    "evaluation_metrics",
    {
        BigInteger(): "evaluation_id definition_version n",
        Text(): "scope metric",
        Double(): "value interval_low interval_high",
        UtcDateTime(): "computed_at",
    },
)
evaluation_sources: Final = _view(
    "evaluation_sources",
    {BigInteger(): "evaluation_id source_evaluation_id predictions", Digest(): "source_seal", Boolean(): "withdrawn"},
)
withdrawals: Final = _view(
    "withdrawals",
    {
        BigInteger(): "withdrawal evaluation_id superseding_evaluation_id",
        Text(): "kind reason actor",
        UtcDateTime(): "at",
        Digest(): "superseded_by",
        Boolean(): "current",
    },
)
chain_links: Final = _view(
    "chain_links",
    {BigInteger(): "position", Text(): "kind", UtcDateTime(): "at", Digest(): "subject labels previous digest"},
)
evaluation_provenance: Final = _view(
    "evaluation_provenance",
    {
        BigInteger(): "evaluation_id shard prompts failures crashes claims tokens_naive tokens_computed",
        Text(): "state error host device",
        UtcDateTime(): "claimed_at finished_at",
        Double(): "elapsed_s",
        Digest(): "engine_fingerprint_digest",
        JsonDocument(): "engine_fingerprint",
    },
)
question_metrics: Final = _view(
    "question_metrics",
    {
        BigInteger(): "evaluation_id question_id expected stored",
        Text(): "external_id subject",
        Boolean(): "flagged scored",
        Double(): " ".join(
            name
            for name, metric in METRICS.items()
            if metric.per_question is not None or metric.over_evaluation is not None
        ),
    },
)
prediction_detail: Final = _view(
    "prediction_detail",
    {
        BigInteger(): "evaluation_id question_id variant answer chosen_position chosen_option generation_tokens",
        Text(): "external_id subject variant_name extraction_rule generation extracted",
        Boolean(): "question_shown own_options unchanged correct tied accuracy_normalized npsq_accuracy "
        "generation_finished choice_only_accuracy choice_sensitivity choice_sensitivity_normalized",
        SmallIntArray(): "shown",
        DoubleArray(): "label_logprobs label_probabilities logprobs_without_question",
        Double(): "label_mass answer_probability brier_score entropy npsq_correct",
        Digest(): "prompt_digest",
    },
)
adversarial_effects: Final = _view(
    "adversarial_effects",
    {
        BigInteger(): "evaluation_id variant questions npsq_questions",
        Text(): "distractor",
        Double(): "flipped accuracy_original accuracy accuracy_change accuracy_normalized_original accuracy_normalized "
        "npsq_flipped npsq_accuracy_original npsq_accuracy",
    },
)
evaluation_seconds: Final = _view(
    "evaluation_seconds",
    {
        BigInteger(): "evaluation_id prompts tokens_naive tokens_computed",
        Double(): "asking_s matching_s",
    },
)
extraction_counts: Final = _view(
    "extraction_counts", {BigInteger(): "evaluation_id prompts correct", Text(): "extraction_rule"}
)
run_accuracy: Final = _view(
    "run_accuracy", {BigInteger(): "evaluation_id variant questions correct", Text(): "scope", Double(): "accuracy"}
)
measured_and_published: Final = _view(
    "measured_and_published", {Text(): "origin model benchmark protocol metric", Double(): "value"}
)
option_probability: Final = _view(
    "option_probability",
    {
        BigInteger(): "evaluation_id question_id variant position option",
        Double(): "logprob_nats probability logprob_without_question_nats",
    },
)


def rows_of(session: Session, query: Executable) -> list[Row]:
    """A query's rows by column name, numbers as plain Python numbers."""
    return [{key: _number(value) for key, value in row.items()} for row in session.execute(query).mappings()]


def _number(value: Any) -> Any:
    """PostgreSQL sums integers to decimals without a fraction, and averages to decimals with one."""
    if not isinstance(value, Decimal):
        return value
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)
