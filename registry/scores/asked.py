"""The number of different prompts that each question of an evaluation has, and the accuracy of guessing.

An evaluation with a single prompt for each question is no evidence of stability, and must never look like it.
"""

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import ColumnElement, Double, case, cast, func, select, true, type_coerce
from sqlalchemy.orm import Session

from registry.digests import specification_digest
from registry.metrics import METRICS
from registry.prompting.protocols.answering import are_drawn, lists_options
from registry.prompting.protocols.replayed import asking_name
from registry.prompting.variants import only_orders
from registry.proposals import propose
from registry.tables import Evaluation, EvaluationQuestion, Prediction, Question, QuestionScore, VariantSet

ASKED: Final = (
    "distinct_prompts_min",
    "distinct_prompts_max",
    "variants_max",
    "orders_only",
    "chance",
    "sampled_from",
    "sample_seed",
    "lists_options",
    "samples",
)
"""Columns of `evaluation` with facts about its prompts."""


def compute_asked(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Compute the columns of `ASKED` for an evaluation from its stored questions.

    distinct_prompts_min, distinct_prompts_max: different prompts that show a question. variants_max: the most prompts
    for a question. orders_only: no prompt alters options, labels or words. chance: accuracy of guessing, the mean of 1
    / number of options. Each is None if nothing is stored. sampled_from, sample_seed, lists_options: as in the
    specification. samples: whether the model draws its answers; False for imported answers with probabilities.
    """
    score = QuestionScore
    row = (
        session.execute(
            select(
                func.min(score.distinct_prompts).label("distinct_prompts_min"),
                func.max(score.distinct_prompts).label("distinct_prompts_max"),
                func.max(score.answers).label("variants_max"),
                func.min(case((score.variants == score.shown, 1), else_=0)).label("own_only"),
                type_coerce(func.avg(cast(1.0, Double) / Question.n_options), Double()).label("chance"),
                func.max(score.probability_variants).label("probable"),
            )
            .select_from(EvaluationQuestion)
            .join(Question, Question.id == EvaluationQuestion.question_id)
            .outerjoin(
                score,
                (score.evaluation_id == EvaluationQuestion.evaluation_id)
                & (score.question_id == EvaluationQuestion.question_id),
            )
            .where(EvaluationQuestion.evaluation_id == evaluation_id)
        )
        .mappings()
        .one()
    )
    kind, specification, listed, samples = session.execute(
        select(VariantSet.kind, Evaluation.specification, Evaluation.lists_options, Evaluation.samples)
        .join(Evaluation, Evaluation.variant_set_id == VariantSet.id)
        .where(Evaluation.id == evaluation_id)
    ).one()
    columns = dict(row)
    own_only, probable = columns.pop("own_only"), bool(columns.pop("probable"))
    orders_only = None if own_only is None else bool(own_only) and only_orders(kind or "")
    if is_recorded(specification):
        samples = are_drawn(specification["protocol"], recorded=True, probable=probable)
    specified = {"orders_only": orders_only, "lists_options": listed, "samples": samples}
    return columns | specified | sample_columns(specification)


def as_specified(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a new evaluation that copy parts of its specification for use in views."""
    protocol = specification["protocol"]
    return {
        "lists_options": lists_options(protocol),
        "samples": are_drawn(protocol, recorded=is_recorded(specification), probable=False),
        "recorded": is_recorded(specification),
        "replayed_from": specification["engine"].get("replayed_from"),
        **sample_columns(specification),
    }


def is_recorded(specification: Mapping[str, Any]) -> bool:
    """Return whether the answers were imported, by the evaluation's specification."""
    return bool(specification.get("engine", {}).get("name") == "replay")


def sample_columns(specification: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the columns of an evaluation that describe its sample of questions; None if it has no sample."""
    sample = specification.get("questions", {}).get("sample") or {}
    return {"sampled_from": sample.get("of"), "sample_seed": sample.get("seed")}


def compute_asked_digest(specification: Mapping[str, Any], questions: int, drawn_from: int) -> str:
    """Return the digest that evaluations of any model share if they have the same questions and the same prompts.

    It is the digest of the specification without model and engine. A filter that keeps all of the benchmark's questions
    counts as none; a sample of questions is another set for each size and seed. questions: number of questions in the
    evaluation. drawn_from: number in the benchmark version.
    """
    shared = {name: specification[name] for name in ("benchmark", "protocol", "variants")}
    part = None if questions >= drawn_from else specification["questions"]
    return specification_digest(shared | {"questions": part})


def first_answers(session: Session, evaluation_id: int) -> ColumnElement[bool]:
    """Return the condition that selects the first answer to each prompt, which the papers' metrics use."""
    repeats = session.scalar(select(Evaluation.repeats).where(Evaluation.id == evaluation_id))
    return Prediction.variant % repeats == 0 if repeats is not None and repeats > 1 else true()


def distinct_prompts(row: Mapping[str, Any]) -> dict[str, int | None]:
    """Return the fewest and most different prompts of a question, from a row with the columns of `compute_asked`."""
    return {"min": row["distinct_prompts_min"], "max": row["distinct_prompts_max"]}


def describe_orders(row: Mapping[str, Any]) -> str | None:
    """Describe the number of orders from a row with the columns of `compute_asked`; None if nothing is stored.

    >>> orders = {"distinct_prompts_min": 4, "distinct_prompts_max": 4, "variants_max": 4, "orders_only": True}
    >>> describe_orders(orders)
    '4 orders'
    >>> describe_orders(orders | {"distinct_prompts_min": 1, "distinct_prompts_max": 1, "variants_max": 1})
    'asked in one order'
    >>> describe_orders(orders | {"distinct_prompts_min": 1, "distinct_prompts_max": 1, "variants_max": 11})
    '11 repeats of one prompt'
    >>> describe_orders(orders | {"distinct_prompts_min": 1, "distinct_prompts_max": 1, "lists_options": False})
    'asked without listing the options'
    """
    low, high, most = row["distinct_prompts_min"], row["distinct_prompts_max"], row["variants_max"]
    if low is None or high is None:
        return None
    unit = "orders" if row["orders_only"] else "different prompts"
    if high == 1 and row.get("lists_options") is False:
        return "asked without listing the options"
    if high == 0:
        return "asked without the question"
    if high <= 1:
        return "asked in one order" if most is None or most <= 1 else f"{most} repeats of one prompt"
    count = str(high) if low == high else f"{low} to {high}"
    return f"{count} {unit}"


def one_order(row: Mapping[str, Any]) -> bool:
    """Return whether no question has two distinct prompts; False if nothing is stored yet."""
    most = row.get("distinct_prompts_max")
    return most is not None and most <= 1


def why_undefined(metric: str, row: Mapping[str, Any]) -> str:
    """Explain why an evaluation has no value of a metric, and so no rank by it.

    row: with the columns of `compute_asked`.

    >>> row = {"distinct_prompts_min": 1, "distinct_prompts_max": 1, "variants_max": 1, "orders_only": True}
    >>> why_undefined("worst_accuracy", row)
    'Worst accuracy needs two orders or more; asked in one order'
    """
    if not row.get("complete", True):
        return "Not scored completely yet"
    label = METRICS[metric].label if metric in METRICS else metric
    if metric in METRICS and METRICS[metric].needs_two_prompts and one_order(row):
        return f"{label} needs two orders or more; {describe_orders(row)}"
    return f"{label} is undefined here: no question has the answers it needs"


PROPOSED: Final = "cyclic"
"""Variants proposed for evaluations with one order: every option once at every position."""


def asking(row: Mapping[str, Any], variants: str = PROPOSED) -> str:
    """Return the command that runs an evaluation's model on its benchmark in other variants.

    row: `model`, `revision`, `kind` of the revision, `benchmark`, `protocol` and `shots`, and `question_filter` if only
    some questions are used. For external models the command is an import. A protocol that lists no options cannot vary
    their order; `hybrid` replaces it, which scores the same texts after a list of them.

    >>> row = {"model": "m", "revision": 2, "kind": "gguf", "benchmark": "arc", "protocol": "symbols", "shots": 5}
    >>> asking(row)
    'shuffleboard evaluations submit --model m@2 --benchmark arc --variants cyclic --shots 5'
    >>> asking(row | {"protocol": "cloze", "lists_options": False, "shots": 0})
    'shuffleboard evaluations submit --model m@2 --benchmark arc --variants cyclic --protocol hybrid'
    >>> asking(row | {"kind": "external", "shots": 0})
    'shuffleboard evaluations import FILE --model m --benchmark arc --variants cyclic'
    """
    imported = row["kind"] == "external"
    parts = ["FILE"] if imported else []
    parts += ["--model", row["model"] if imported else f"{row['model']}@{row['revision']}"]
    parts += ["--benchmark", row["benchmark"], "--variants", variants]
    protocol = "hybrid" if row.get("lists_options") is False else asking_name(row["protocol"])
    if protocol != "symbols":
        parts += ["--protocol", protocol]
    if row["shots"]:
        parts += ["--shots", str(row["shots"])]
    selected = {} if imported else row.get("question_filter") or {}
    for subject in selected.get("subjects") or ():
        parts += ["--subject", subject]
    for key in ("options", "limit"):
        if selected.get(key) is not None:
            parts += [f"--{key}", str(selected[key])]
    if (sample := selected.get("sample")) is not None:
        parts += ["--sample", str(sample["questions"]), "--seed", str(sample["seed"])]
    return propose("evaluations import" if imported else "evaluations submit", *parts)


def not_ranked(row: Mapping[str, Any], metric: str, unread: str | None = None) -> dict[str, str] | None:
    """Return the reason why a complete row has no rank, and the command that would give it one.

    unread: the reason if too many answers are missing for a rank by any metric. Returns None for rows with a rank, and
    for rows that have two orders but lack something else.
    """
    if unread is not None:
        return {"reason": unread, "command": asking(row, row["variants"])}
    if row["rank"] is not None or not row["complete"] or not METRICS[metric].needs_two_prompts or not one_order(row):
        return None
    return {"reason": why_undefined(metric, row), "command": asking(row)}
