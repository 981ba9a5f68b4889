"""Repeat noise beside order effects: over an evaluation that repeats its prompts, its replicates, or a second one.

What counts as a repeat, and where it is looked for: docs/decisions/0035-where-repeat-noise-comes-from.md.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from registry.errors import UsageError
from registry.lookups import find_evaluation, find_sealed, stands
from registry.tables import Evaluation, EvaluationQuestion, Prediction, QuestionScore, QuestionSeal

if TYPE_CHECKING:
    from registry.statistics.noise import Answer, Pairs


@dataclass(frozen=True)
class NoiseSource:
    """The evaluations, all sealed, that answer for the orders, and those that repeat prompts; often the same."""

    evaluations: tuple[Evaluation, ...]
    repeating: tuple[Evaluation, ...]

    @property
    def key(self) -> str:
        """What stands for everything that is computed from them: sealed evaluations do not change."""
        sides = (self.evaluations, self.repeating)
        return " / ".join(" ".join(f"{member.id} {member.seal}" for member in side) for side in sides)


def repeat_noise(session: Session, evaluation_id: int, noise_from: int | None = None) -> dict[str, Any] | None:
    """How often answers of an evaluation differ on the same prompt, and in another order; None where none was repeated.

    noise_from: the evaluation whose repeats are taken; by default `noise_source` looks for one.
    Raises UsageError for one of another model, benchmark or protocol, that repeats nothing, or that is not sealed.
    """
    source = noise_source(session, evaluation_id, noise_from)
    return None if source is None else noise_document(session, source)


def noise_source(session: Session, evaluation_id: int, noise_from: int | None = None) -> NoiseSource | None:
    """Where the repeat noise of an evaluation is known from; None where that is nowhere, or where it is not sealed.

    Of the evaluation with its replicates, and every other one of its model revision, benchmark version and protocol,
    it is the one that repeats prompts of the most of its questions; if equal the evaluation itself, then the newest.
    Raises UsageError for a `noise_from` that says nothing about it.
    """
    evaluation = find_evaluation(session, evaluation_id)
    if evaluation.seal is None:
        return None
    own = _with_replicates(session, evaluation)
    if noise_from is not None:
        return NoiseSource(own, _comparable(session, evaluation, noise_from))
    candidates = [own, *_others(session, own)]
    repeated = [_repeated(session, evaluation, members) for members in candidates]
    most = max(repeated)
    return NoiseSource(own, candidates[repeated.index(most)]) if most else None


def replicates_of(session: Session, evaluation_id: int) -> list[int]:
    """The sealed evaluations of the specification of one that ask its prompts again, withdrawn ones left out.

    Imports of arbitrary orders are no replicates of each other, and the same recorded answers, imported twice, are one.
    """
    evaluation = find_evaluation(session, evaluation_id)
    same = [
        Evaluation.specification_digest == evaluation.specification_digest,
        Evaluation.seal.is_not(None),
        stands(),
    ]
    if evaluation.variant_set.kind == "imported":
        same.append(Evaluation.id == evaluation.id)
    ids = list(session.scalars(select(Evaluation.id).where(*same).order_by(Evaluation.replicate)))
    if len(ids) < 2 or not _recorded(evaluation):
        return ids
    leaves = {number: _leaves(session, number) for number in ids}
    # Of equal ones the evaluation itself stays, or else the first.
    kept = {content: number for number, content in reversed(leaves.items())}
    if evaluation.id in leaves:
        kept[leaves[evaluation.id]] = evaluation.id
    return sorted(kept.values(), key=ids.index)


def noise_document(session: Session, source: NoiseSource) -> dict[str, Any]:
    """Repeat noise apart from order effects, over the questions of the evaluations.

    Raises UsageError for evaluations of different specifications.
    """
    # numpy comes with it, and most evaluations repeat nothing.
    from registry.statistics.bootstrap import RESAMPLES, SEED
    from registry.statistics.noise import noise_of_pairs

    if len({evaluation.specification_digest for evaluation in source.evaluations}) > 1:
        raise UsageError("the evaluations have different specifications; give replicates of one")
    orders = _pairs(session, source.evaluations)
    repeats = orders if source.repeating == source.evaluations else _pairs(session, source.repeating)
    questions = sorted(orders)
    nothing: tuple[Pairs, Pairs] = ((0, 0), (0, 0))
    found = asdict(
        noise_of_pairs(
            [repeats.get(question_id, nothing)[0] for question_id in questions],
            [orders[question_id][1] for question_id in questions],
        )
    )
    for name in ("interval", "repeat_interval", "order_interval"):
        found[name] = None if found[name] is None else [found[name]["low"], found[name]["high"]]
    return {
        "evaluations": [evaluation.id for evaluation in source.evaluations],
        "noise_from": [evaluation.id for evaluation in source.repeating] if found["repeat_pairs"] else [],
        **found,
        "resamples": RESAMPLES,
        "seed": SEED,
    }


def noise_of_replicates(
    session: Session, evaluation_ids: Sequence[int], noise_from: int | None = None
) -> dict[str, Any]:
    """Repeat noise apart from order effects over replicates; of one evaluation, over what `noise_source` finds.

    Raises QueueError for one that is not sealed, UsageError for evaluations of different specifications.
    """
    evaluations = tuple(find_sealed(session, evaluation_id) for evaluation_id in dict.fromkeys(evaluation_ids))
    if len(evaluations) == 1:
        source = noise_source(session, evaluations[0].id, noise_from)
        own = _with_replicates(session, evaluations[0])
        return noise_document(session, source or NoiseSource(own, own))
    if noise_from is None:
        return noise_document(session, NoiseSource(evaluations, evaluations))
    return noise_document(session, NoiseSource(evaluations, _comparable(session, evaluations[0], noise_from)))


def _recorded(evaluation: Evaluation) -> bool:
    """Whether its answers were recorded elsewhere, and imported."""
    return bool(evaluation.specification["engine"]["name"] == "replay")


def _leaves(session: Session, evaluation_id: int) -> tuple[tuple[int, str], ...]:
    query = select(QuestionSeal.question_id, QuestionSeal.leaf).where(QuestionSeal.evaluation_id == evaluation_id)
    return tuple((row.question_id, row.leaf) for row in session.execute(query.order_by(QuestionSeal.question_id)))


def _with_replicates(session: Session, evaluation: Evaluation) -> tuple[Evaluation, ...]:
    ids = replicates_of(session, evaluation.id)
    # One that was withdrawn is none of them, and stands for itself alone.
    return tuple(session.get_one(Evaluation, number) for number in ids) if evaluation.id in ids else (evaluation,)


def _comparable(session: Session, evaluation: Evaluation, noise_from: int) -> tuple[Evaluation, ...]:
    """The named evaluation with its replicates, if its repeats say something about the other one."""
    named = find_evaluation(session, noise_from)
    if named.seal is None:
        raise UsageError(f"evaluation {named.id} is {named.state}; wait until it is complete, or name another")
    differing = [
        what
        for what, column in (
            ("model revision", "model_revision_id"),
            ("benchmark version", "benchmark_version_id"),
            ("protocol", "protocol_id"),
        )
        if getattr(evaluation, column) != getattr(named, column)
    ]
    if differing:
        raise UsageError(
            f"evaluation {named.id} has another {' and '.join(differing)} than evaluation {evaluation.id}; name "
            "one that differs in its variants alone"
        )
    members = _with_replicates(session, named)
    if not _repeated(session, evaluation, members):
        raise UsageError(
            f"evaluation {named.id} asked none of the questions of evaluation {evaluation.id} twice in one prompt; "
            "name one that did"
        )
    return members


def _others(session: Session, own: Sequence[Evaluation]) -> list[tuple[Evaluation, ...]]:
    """The other evaluations of the model revision, benchmark version and protocol, with their replicates."""
    evaluation = own[0]
    query = (
        select(Evaluation)
        .where(
            Evaluation.benchmark_version_id == evaluation.benchmark_version_id,
            Evaluation.protocol_id == evaluation.protocol_id,
            Evaluation.model_revision_id == evaluation.model_revision_id,
            Evaluation.seal.is_not(None),
            stands(),
        )
        .order_by(Evaluation.id.desc())
    )
    known = {member.id for member in own}
    found = []
    for other in session.scalars(query).all():
        if other.id not in known:
            members = _with_replicates(session, other)
            known.update(member.id for member in members)
            found.append(members)
    return found


def _repeated(session: Session, evaluation: Evaluation, members: Sequence[Evaluation]) -> int:
    """How many questions of an evaluation were asked twice in the same prompt by these."""
    member = members[0]
    score, asked = aliased(QuestionScore), aliased(EvaluationQuestion)
    query = (
        select(func.count())
        .select_from(score)
        .join(asked, (asked.evaluation_id == evaluation.id) & (asked.question_id == score.question_id))
        .where(score.evaluation_id == member.id)
    )
    if len(members) > 1:
        return session.scalar(query) or 0
    if not _recorded(member) or (member.variants_max or 0) <= (member.distinct_prompts_min or 0):
        return 0
    return session.scalar(query.where(score.shown > score.distinct_prompts)) or 0


def _pairs(session: Session, evaluations: Sequence[Evaluation]) -> dict[int, "tuple[Pairs, Pairs]"]:
    """Question to its pairs with the same order, and with different ones.

    What was scored here answers a prompt that it shows twice with one draw, so within such an evaluation a prompt
    counts once. Other labels make another prompt and not another order: under relabel no pair differs in its order.
    """
    from registry.statistics.noise import pairs_of

    answers: dict[int, list[Answer]] = {}
    relabelled = any(evaluation.variant_set.kind == "relabel" for evaluation in evaluations)
    for evaluation in evaluations:
        query = (
            select(Prediction.question_id, Prediction.variant, Prediction.shown, Prediction.chosen_option)
            .where(Prediction.evaluation_id == evaluation.id, Prediction.question_shown, Prediction.own_options)
            .order_by(Prediction.question_id, Prediction.variant)
        )
        recorded, drawn = _recorded(evaluation), set()
        for question_id, variant, shown, option in session.execute(query):
            order = (*shown, variant) if relabelled else tuple(shown)
            if recorded or (question_id, order) not in drawn:
                drawn.add((question_id, order))
                answers.setdefault(question_id, []).append((order, option))
    found = {question_id: pairs_of(predictions) for question_id, predictions in answers.items()}
    return {key: (same, (0, 0)) for key, (same, _) in found.items()} if relabelled else found
