"""Repeat noise next to order effects: over an evaluation that repeats its prompts, its replicates, or a second one.

Which answers count as repeats, and where they are found: docs/decisions/0036-where-repeat-noise-comes-from.md.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, case, func, select
from sqlalchemy.orm import Session, aliased

from registry.errors import UsageError
from registry.lookups import find_evaluation, find_sealed, not_withdrawn
from registry.predictions.stored import require_rows
from registry.prompting.protocols.answering import lists_options
from registry.prompting.variants import only_orders
from registry.scores.asked import is_recorded
from registry.tables import Evaluation, EvaluationQuestion, Prediction, QuestionScore, QuestionSeal, VariantSet

if TYPE_CHECKING:
    from registry.statistics.noise import Answer, Pairs


@dataclass(frozen=True)
class Member:
    """An evaluation, with the facts about its repeats.

    recorded: whether its answers were imported. repeats: how often it runs each prompt; None: recorded, with any
    number. counts: whether it was not withdrawn. may_repeat: whether it may show a prompt twice.
    """

    id: int
    seal: str | None
    specification_digest: str
    kind: str
    recorded: bool
    repeats: int | None
    counts: bool
    may_repeat: bool

    @property
    def asks_again(self) -> bool:
        """Return whether some prompt may have been run twice, with a draw for each answer."""
        return self.recorded or (self.repeats or 1) > 1

    def draw(self, variant: int) -> int:
        """Return the number of the draw that answered a variant.

        Variants of one prompt with the same number are copies.
        """
        return variant if self.recorded else variant % (self.repeats or 1)


Members = tuple[Member, ...]


@dataclass(frozen=True)
class NoiseSource:
    """The sealed evaluations from which noise is computed.

    evaluations: the ones with answers in several orders. repeating: the ones with repeated prompts; often the same.
    """

    evaluations: Members
    repeating: Members

    @property
    def key(self) -> str:
        """Return a cache key for results computed from these evaluations, which never change once sealed."""
        sides = (self.evaluations, self.repeating)
        return " / ".join(" ".join(f"{member.id} {member.seal}" for member in side) for side in sides)


def repeat_noise(session: Session, evaluation_id: int, noise_from: int | None = None) -> dict[str, Any] | None:
    """Return how often answers differ on the same prompt, and in another order; None if no prompt was repeated.

    noise_from: the evaluation whose repeats are used; by default `noise_source` looks for one.
    Raises UsageError for an evaluation of another model, benchmark or protocol, without repeats, or unsealed.
    """
    source = noise_source(session, evaluation_id, noise_from)
    return None if source is None else noise_document(session, source)


def noise_source(session: Session, evaluation_id: int, noise_from: int | None = None) -> NoiseSource | None:
    """Find the source of an evaluation's repeat noise; None if there is none, or if the evaluation is not sealed.

    The candidates are the evaluation with its replicates, and all others of its model revision, benchmark version and
    protocol. The source is the candidate that repeats a prompt in the most of the evaluation's questions; of equal ones
    the evaluation itself, then the newest.
    Raises UsageError for a `noise_from` that has no repeats for it.
    """
    candidates = _candidates(session, evaluation_id)
    if not candidates:
        return None
    repeated = _count_repeated(session, evaluation_id, candidates)
    if noise_from is not None:
        return NoiseSource(candidates[0], _find_named(session, evaluation_id, noise_from, candidates, repeated))
    most = max(repeated)
    return NoiseSource(candidates[0], candidates[repeated.index(most)]) if most else None


def noise_of_replicates(
    session: Session, evaluation_ids: Sequence[int], noise_from: int | None = None
) -> dict[str, Any]:
    """Separate repeat noise from order effects over replicates of an evaluation.

    If only one evaluation is given, `noise_source` finds its repeats. Raises QueueError for an unsealed
    one, UsageError for evaluations of different specifications.
    """
    evaluations = [find_sealed(session, evaluation_id) for evaluation_id in dict.fromkeys(evaluation_ids)]
    if len({evaluation.specification_digest for evaluation in evaluations}) > 1:
        raise UsageError("the evaluations have different specifications; give replicates of one")
    first = evaluations[0].id
    members = _candidates(session, first)[0]
    if len(evaluations) > 1:
        requested = {evaluation.id for evaluation in evaluations}
        members = tuple(member for member in _alike(session, first) if member.id in requested)
    source = noise_source(session, first, noise_from) if len(evaluations) == 1 or noise_from is not None else None
    return noise_document(session, NoiseSource(members, members if source is None else source.repeating))


def noise_document(session: Session, source: NoiseSource) -> dict[str, Any]:
    """Separate repeat noise from order effects, over the questions of the evaluations."""
    # Imported here, since it loads numpy, and most evaluations repeat nothing.
    from registry.statistics.bootstrap import RESAMPLES, SEED
    from registry.statistics.noise import noise_of_pairs

    orders = _pairs(session, source.evaluations)
    repeats = orders if source.repeating == source.evaluations else _pairs(session, source.repeating)
    questions = sorted(orders)
    nothing: tuple[Pairs, Pairs] = ((0, 0), (0, 0))
    document = asdict(
        noise_of_pairs(
            [repeats.get(question_id, nothing)[0] for question_id in questions],
            [orders[question_id][1] for question_id in questions],
        )
    )
    for name in ("interval", "repeat_interval", "order_interval"):
        document[name] = None if document[name] is None else [document[name]["low"], document[name]["high"]]
    if document["interval"] is None or document["repeat_interval"] is None:
        document["order_effect"] = document["interval"] = None  # an unknown noise cannot be subtracted
    return {
        "evaluations": [member.id for member in source.evaluations],
        "noise_from": [member.id for member in source.repeating] if document["repeat_pairs"] else [],
        **document,
        "resamples": RESAMPLES,
        "seed": SEED,
    }


_SAME = ("model_revision_id", "benchmark_version_id", "protocol_id")


def _alike(session: Session, evaluation_id: int) -> list[Member]:
    """Return an evaluation and the sealed ones with the same model revision, benchmark version and protocol."""
    requested, other = aliased(Evaluation), Evaluation
    query = (
        select(
            other.id,
            other.seal,
            other.specification_digest,
            other.specification,
            other.repeats,
            VariantSet.kind,
            not_withdrawn().label("counts"),
            (func.coalesce(other.variants_max, 0) > func.coalesce(other.distinct_prompts_min, 0)).label("may_repeat"),
        )
        .join(requested, and_(*(getattr(requested, name) == getattr(other, name) for name in _SAME)))
        .join(VariantSet, VariantSet.id == other.variant_set_id)
        .where(requested.id == evaluation_id, (other.id == requested.id) | (other.seal.is_not(None) & not_withdrawn()))
        .order_by(other.replicate, other.id)
    )
    return [
        Member(
            id=row.id,
            seal=row.seal,
            specification_digest=row.specification_digest,
            kind=row.kind,
            recorded=is_recorded(row.specification),
            repeats=row.repeats,
            counts=bool(row.counts),
            may_repeat=bool(row.may_repeat),
        )
        for row in session.execute(query)
    ]


def _candidates(session: Session, evaluation_id: int) -> list[Members]:
    """Return the evaluation with its replicates, then all comparable ones with theirs, the newest first.

    Empty if it is not sealed. Imports of arbitrary orders are no replicates of each other, and a withdrawn evaluation
    has none.
    """
    comparable = _alike(session, evaluation_id)
    if not comparable:
        find_evaluation(session, evaluation_id)  # raises an error if it does not exist
    groups: dict[str, list[Member]] = {}
    key_of_own = ""
    for member in comparable:
        alone = member.kind == "imported" or not member.counts
        key = f"{member.specification_digest} {member.id if alone else ''}"
        groups.setdefault(key, []).append(member)
        if member.id == evaluation_id:
            key_of_own = key
            if member.seal is None:
                return []
    own_group = groups.pop(key_of_own)
    others = sorted(groups.values(), key=lambda members: -max(member.id for member in members))
    return _drop_copies(session, evaluation_id, [own_group, *others])


def _drop_copies(session: Session, evaluation_id: int, groups: Sequence[Sequence[Member]]) -> list[Members]:
    """Drop copies of answers, such as from a second import; of equal evaluations the one with this id stays."""
    ids = [member.id for members in groups if len(members) > 1 for member in members if member.recorded]
    if not ids:
        return [tuple(members) for members in groups]
    leaves: dict[int, list[str]] = {}
    query = select(QuestionSeal.evaluation_id, QuestionSeal.leaf).where(QuestionSeal.evaluation_id.in_(ids))
    for number, leaf in session.execute(query.order_by(QuestionSeal.evaluation_id, QuestionSeal.question_id)):
        leaves.setdefault(number, []).append(leaf)
    kept = []
    for members in groups:
        by_content: dict[Any, Member] = {}
        for member in members:
            content = tuple(leaves.get(member.id, [str(member.id)]))
            if content not in by_content or member.id == evaluation_id:
                by_content[content] = member
        kept.append(tuple(by_content.values()))
    return kept


def _count_repeated(session: Session, evaluation_id: int, candidates: Sequence[Members]) -> list[int]:
    """Count, for each candidate, the evaluation's questions for which it repeats a prompt."""
    able = [
        members[0].id for members in candidates if len(members) > 1 or (members[0].asks_again and members[0].may_repeat)
    ]
    if not able:
        return [0] * len(candidates)
    score, own_question = aliased(QuestionScore), aliased(EvaluationQuestion)
    query = (
        select(
            score.evaluation_id,
            func.count().label("common"),
            func.sum(case((score.answers > score.distinct_prompts, 1), else_=0)).label("repeated"),
        )
        .join(
            own_question,
            (own_question.evaluation_id == evaluation_id) & (own_question.question_id == score.question_id),
        )
        .where(score.evaluation_id.in_(able))
        .group_by(score.evaluation_id)
    )
    counts = {row.evaluation_id: row for row in session.execute(query)}
    numbers = []
    for members in candidates:
        row = counts.get(members[0].id)
        numbers.append(0 if row is None else int(row.common if len(members) > 1 else row.repeated))
    return numbers


def _find_named(
    session: Session, evaluation_id: int, noise_from: int, candidates: Sequence[Members], repeated: Sequence[int]
) -> Members:
    """Return the named evaluation with its replicates. Raises UsageError if its repeats do not apply to the other."""
    for members, questions in zip(candidates, repeated, strict=True):
        if any(member.id == noise_from for member in members):
            if not questions:
                raise UsageError(
                    f"evaluation {noise_from} asked none of the questions of evaluation {evaluation_id} twice in one "
                    "prompt; name one that did"
                )
            return members
    evaluation, named = find_evaluation(session, evaluation_id), find_evaluation(session, noise_from)
    differing = [name for name in _SAME if getattr(evaluation, name) != getattr(named, name)]
    if differing:
        what = " and ".join(name.removesuffix("_id").replace("_", " ") for name in differing)
        raise UsageError(
            f"evaluation {noise_from} has another {what} than evaluation {evaluation_id}; name one that differs in its "
            "variants alone"
        )
    state = named.state if named.seal is None else "withdrawn, or a copy of another"
    raise UsageError(f"evaluation {noise_from} is {state}; name a complete one that stands")


def _pairs(session: Session, evaluations: Members) -> dict[int, "tuple[Pairs, Pairs]"]:
    """Return, by question, the pairs of answers with the same order, and those with different orders.

    If two variants that were scored here show one prompt, they have one answer, which counts once; with `repeats` each
    repeat is a new draw. Other labels or words make another prompt and not another order: under relabel and wording no
    pair differs in its order alone. A protocol that lists no options shows no order: all of its prompts of a question
    are one.
    """
    from registry.statistics.noise import pairs_of

    answers: dict[int, list[Answer]] = {}
    reworded = any(not only_orders(member.kind) for member in evaluations)
    listed = lists_options(find_evaluation(session, evaluations[0].id).protocol.definition)
    for member in evaluations:
        query = (
            select(
                Prediction.question_id,
                Prediction.variant,
                Prediction.prompt_key,
                Prediction.shown,
                Prediction.chosen_option,
            )
            .where(Prediction.evaluation_id == member.id, Prediction.question_shown, Prediction.own_options)
            .order_by(Prediction.question_id, Prediction.variant)
        )
        drawn = set()
        require_rows(session, member.id)
        for question_id, variant, prompt, shown, option in session.execute(query):
            # The key includes the order, since each file numbers its recorded orders in its own way.
            key = (prompt, *shown) if reworded else tuple(shown) if listed else ()
            if (draw := (question_id, key, member.draw(variant))) not in drawn:
                drawn.add(draw)
                answers.setdefault(question_id, []).append((key, option))
    pairs = {question_id: pairs_of(predictions) for question_id, predictions in answers.items()}
    return {key: (same, (0, 0)) for key, (same, _) in pairs.items()} if reworded else pairs
