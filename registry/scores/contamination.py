"""Signs that a model was trained on a benchmark: whether the order that was published stands out among all orders.

Of the answers that an evaluation has anyway; the test is `registry.statistics.original_order`.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.lookups import find_sealed
from registry.predictions.stored import require_rows
from registry.prompting.protocols.answering import lists_options
from registry.scores.asked import first_answers
from registry.statistics.bootstrap import SEED
from registry.statistics.original_order import LEVEL, Asked, Floats, Outlier, compare_with_other_orders
from registry.statistics.published_order import LEAST, Regularity, key_places, regularity
from registry.tables import Evaluation, Prediction, Question, QuestionOption

Order = tuple[int, ...]
Answer = tuple[float, float | None]

MEASURES: Final = {"accuracy": "Accuracy", "key_log_odds": "Log-odds of the key (nats)"}
"""The share of right answers, and how probable the key is among the options, with their labels.

Log-odds rather than log-probabilities: memory shows in them even of a key that is probable anyway.
"""
LEAST_PROBABILITY: Final = 1e-6
"""So near to 0 or 1 one probability is as good as another: a single question must not outweigh all others."""


@dataclass(frozen=True)
class AllOrders:
    """The questions that were asked in all orders, or in all rotations, and how many others there are.

    with_odds: whether they have the second measure. flagged: asked so, but with options that refer to each other or
    are sorted numbers, whose published order is special to any model. other: not asked so.
    """

    questions: list[Asked]
    with_odds: bool
    flagged: int
    other: int


def contamination_document(session: Session, evaluation_id: int) -> dict[str, Any]:
    """Whether the published order is an outlier in an evaluation's answers, as JSON.

    `p_value` is that of `careful`; `outlier` whether it is at most `level`. Both are None, and `why` says
    why, where the orders that were asked cannot tell, or where the published order of the benchmark is regular itself,
    or may be: any model that likes a position and, say, long options would be an outlier. `regularities`: what was
    tested of that order. Raises NotFoundError, and QueueError where it is not sealed.
    """
    evaluation = find_sealed(session, evaluation_id)
    asked = all_orders(session, evaluation)
    regularities = published_order(session, evaluation.benchmark_version_id)
    regular = {name: of for name, of in regularities.items() if of is not None and of.p_value <= REGULAR}
    listed = lists_options(evaluation.specification["protocol"])
    if not listed or not asked.questions:
        regular = {}  # first of all the right orders are needed
    known = listed and regularities["keys"] is not None
    found = compare_with_other_orders(asked.questions) if known and not regular else None
    p_value = careful(found)
    return {
        "evaluation": evaluation.id,
        "questions": len(asked.questions),
        "flagged": asked.flagged,
        "other": asked.other,
        "level": LEVEL,
        "seed": SEED,
        "p_value": p_value,
        "outlier": None if p_value is None else p_value <= LEVEL,
        "why": None
        if p_value is not None
        else _why_regular(regular)
        if regular
        else _why(asked, listed=listed, known=known, drawn=found is not None),
        "regularities": {
            name: None if of is None else {"label": REGULARITIES[name], **asdict(of)}
            for name, of in regularities.items()
        },
        "measures": {
            name: {"label": label, **asdict(measure)}
            for (name, label), measure in zip(MEASURES.items(), found.measures, strict=False)
        }
        if found is not None
        else {},
    }


COUNTED: Final = len(MEASURES) + 1
"""How often the smallest p-value counts: for each measure, and once for what a model likes that lengths do not tell."""


def careful(found: Outlier | None) -> float | None:
    """The smallest p-value of MEASURES, counted COUNTED times, at most 1; None if there is none.

    As often if only the answers are known: whoever accuses should rather be too careful.
    """
    known = [] if found is None else [one.p_value for one in found.measures if one.p_value is not None]
    return min(1.0, COUNTED * min(known)) if known else None


REGULAR: Final = 0.01
"""A published order that is so improbable among all orders is regular, and says nothing of any model."""
REGULARITIES: Final = {
    "length": "Options by length",
    "alphabet": "Options by alphabet",
    "number": "Options by number",
    "keys": "Keys by subject or place in the file",
}
"""What is tested of a published order, in words."""
_NUMBER: Final = re.compile(r"[^\d+-]*([+-]?\d+(?:\.\d+)?)")


def published_order(session: Session, benchmark_version_id: int) -> dict[str, Regularity | None]:
    """What was tested of the published order of a benchmark, by name of REGULARITIES; None: not testable.

    Whether options stand by length, alphabet or numbers, and whether the keys' positions depend on the question. Of all
    its questions whose options neither refer to each other nor are sorted numbers: the others are left out of the test
    of an evaluation, too.
    """
    query = (
        select(QuestionOption.question_id, QuestionOption.text, Question.subject, Question.answer)
        .join(Question, Question.id == QuestionOption.question_id)
        .where(Question.benchmark_version_id == benchmark_version_id, ~Question.few_shot)
        .where(~Question.refers_to_options, ~Question.sorted_numeric)
        .order_by(Question.ordinal, QuestionOption.ordinal)
    )
    texts: dict[int, list[str]] = {}
    keys: dict[int, tuple[str | None, int]] = {}
    for question_id, text, subject, key in session.execute(query):
        texts.setdefault(question_id, []).append(text)
        keys[question_id] = subject, key
    return regularities([(subject, texts[number], key) for number, (subject, key) in keys.items()])


def regularities(questions: Sequence[tuple[str | None, Sequence[str], int]]) -> dict[str, Regularity | None]:
    """What was tested, by name of REGULARITIES. questions: in the file's order, of each subject, options and key."""
    texts = [options for _, options, _ in questions]
    numbers = [[_NUMBER.match(text.replace(",", "")) for text in options] for options in texts]
    return {
        "length": regularity([[len(text) for text in options] for options in texts]),
        "alphabet": regularity([[text.casefold() for text in options] for options in texts]),
        "number": regularity([[float(one[1]) for one in found if one] for found in numbers if all(found)]),
        "keys": key_places([(subject, len(options), key) for subject, options, key in questions]),
    }


def _why_regular(regular: Mapping[str, Regularity]) -> str:
    found = []
    for name, of in regular.items():
        if of.sorted is None or of.expected is None:
            found.append("the positions of the keys depend on the subject or on the place in the file")
        else:
            shares = f"{100 * of.sorted:.1f} % of the questions ({100 * of.expected:.1f} % in any order)"
            found.append(f"options stand by {name}, sorted in {shares}")
    return f"the published order is regular itself: {'; '.join(found)}; a model that never saw it may do better in it"


def _why(asked: AllOrders, *, listed: bool, known: bool, drawn: bool) -> str:
    if not listed:
        return "the protocol does not list the options, so no order was shown"
    if drawn:
        return "the order changes no answer"
    if asked.questions and not known:
        return (
            f"the benchmark has fewer than {LEAST} questions whose options may stand in any order, too few to test "
            "whether its published order is as good as random"
        )
    if asked.questions:
        return "the keys of all questions stand at the same position"
    if asked.flagged:
        return "the options of every question refer to each other or are sorted numbers"
    return "no question was asked in all rotations or all orders of its options: use the variants cyclic or full"


def all_orders(session: Session, evaluation: Evaluation) -> AllOrders:
    """The answers of an evaluation by question and order."""
    query = (
        select(
            Prediction.question_id,
            Question.external_id,
            Question.answer,
            Question.n_options,
            Question.refers_to_options | Question.sorted_numeric,
            Prediction.shown,
            Prediction.correct,
            Prediction.answer_probability,
        )
        .join(Question, Question.id == Prediction.question_id)
        .where(Prediction.evaluation_id == evaluation.id, Prediction.own_options, Prediction.question_shown)
        .where(first_answers(session, evaluation.id))
        .order_by(Prediction.question_id, Prediction.variant)
    )
    answers: dict[int, dict[Order, list[Answer]]] = {}
    of_question: dict[int, tuple[str, int, int, bool]] = {}
    require_rows(session, evaluation.id)
    for question_id, name, key, options, flagged, shown, correct, probability in session.execute(query):
        of_question[question_id] = (name, key, options, bool(flagged))
        answers.setdefault(question_id, {}).setdefault(tuple(shown), []).append((float(correct), _odds(probability)))
    # By name, so that the same draws are made in every registry.
    ordered = sorted(of_question.items(), key=lambda item: item[1])
    complete = {number: of for number, of in ordered if _all_asked(answers[number], of[2])}
    kept = {number: key for number, (_, key, _, flagged) in complete.items() if not flagged}
    known = [odds for number in kept for given in answers[number].values() for _, odds in given]
    with_odds = bool(known) and None not in known
    lengths = _lengths(session, evaluation.benchmark_version_id)
    return AllOrders(
        [_asked(answers[number], key, lengths[number], with_odds=with_odds) for number, key in kept.items()],
        with_odds,
        len(complete) - len(kept),
        len(of_question) - len(complete),
    )


def _all_asked(orders: Mapping[Order, object], options: int) -> bool:
    """Whether these are all orders, or all rotations: whichever of them was published, the others would be the same."""
    rotations = {tuple((place + step) % options for place in range(options)) for step in range(options)}
    return options > 1 and (len(orders) == math.factorial(options) or orders.keys() == rotations)


def _odds(probability: float | None) -> float | None:
    if probability is None:
        return None
    bounded = min(max(probability, LEAST_PROBABILITY), 1 - LEAST_PROBABILITY)
    return math.log(bounded / (1 - bounded))


def _lengths(session: Session, benchmark_version_id: int) -> dict[int, Floats]:
    """Of each question how long its options are beside each other."""
    query = (
        select(QuestionOption.question_id, func.length(QuestionOption.text))
        .join(Question, Question.id == QuestionOption.question_id)
        .where(Question.benchmark_version_id == benchmark_version_id)
        .order_by(QuestionOption.question_id, QuestionOption.ordinal)
    )
    found: dict[int, list[int]] = {}
    for question_id, length in session.execute(query):
        found.setdefault(question_id, []).append(length)
    return {number: standardised(of) for number, of in found.items()}


def standardised(lengths: Sequence[int]) -> Floats:
    """In standard deviations from their mean; 0 where all are equal."""
    found = np.array(lengths, dtype=np.float64)
    return np.asarray((found - found.mean()) / (found.std() or 1.0))


def _asked(answers: Mapping[Order, Sequence[Answer]], key: int, lengths: Floats, *, with_odds: bool) -> Asked:
    """Orders with the key at one position stand in the order of their options, so that every question's are alike."""
    orders = sorted(answers, key=lambda order: (order.index(key), order))
    size = len(next(iter(answers)))
    measures = 2 if with_odds else 1
    means = np.array([[_mean([answer[m] for answer in answers[order]]) for order in orders] for m in range(measures)])
    place = orders.index(tuple(range(size)))
    others = len(orders) // size
    of_places = lengths[np.array(orders)].reshape(size, others, size)
    return Asked(means.reshape(measures, size, others), *divmod(place, others), of_places)


def _mean(values: Sequence[float | None]) -> float:
    return math.fsum(value for value in values if value is not None) / len(values)
