"""The questions of a benchmark, seen through the models that answered them: reliability, and which to look at again.

One version, asked in one way, one complete evaluation of each model: the newest of its newest revision.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import JSON, BigInteger, case, cast, func, null, select, type_coerce
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.lookups import NAMES, not_withdrawn, with_names
from registry.predictions.stored import require_rows
from registry.prompting.labels import letter
from registry.schema.selectables import Row, rows_of
from registry.studies.choosing import part_label
from registry.tables import (
    BenchmarkVersion,
    Evaluation,
    ModelRevision,
    Prediction,
    Question,
    QuestionOption,
)

if TYPE_CHECKING:
    from registry.statistics.bootstrap import Floats
    from registry.statistics.items import Estimate

REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "contradicting_duplicate": (
        "Contradicts a duplicate",
        "The same question with the same options has another key elsewhere: one of the two is wrong.",
    ),
    "other_option": (
        "Another option leads",
        "The key may be wrong, or two options right, or this is a common mistake: weak evidence by itself.",
    ),
    "latent_key": (
        "Another key fits better",
        "Given what each model knows, the answers would be likelier if it were the key; or they share a mistake.",
    ),
    "missed_by_strong": (
        "Missed by the strongest",
        "The key may be wrong, something may be missing from the question, or it is merely hard.",
    ),
    "negative_discrimination": (
        "Weaker models do better",
        "The key may be wrong, or the question has a trap that only stronger models see reason to step into.",
    ),
    "split": ("Split between two options", "Both may be right, or neither; the order of the options decides."),
    "duplicate": ("Duplicate", "The same question with the same options and key counts twice."),
    "refers_to_options": ("Options refer to each other", "Moving the options changes what they mean."),
    "sorted_numeric": ("Options are sorted numbers", "Moving the options takes a cue away."),
}
"""Why a question may be worth a second look: a label, and what it suggests. None of them proves anything."""

WEAK: Final = " Weak evidence: an attractive wrong option explains this, too."
"""Said where another option leads, but the answers are not ten times likelier with another key."""
_TENFOLD: Final = math.log(10)
"""Log odds of another key from which on they are a reason: one question in so many has a wrong key, not most."""
MOST_PREDICTIONS: Final = 1_000_000
"""Of more models than give so many predictions, some are taken, spread evenly over the evaluations."""
LEAST_MODELS: Final = 30
"""But never fewer than these."""

_OF_TWO: Final = 0.8
_OF_EACH: Final = 0.25
"""An answer is split where two options have .8 of a model's answers over its orders, and each at least .25."""


@dataclass(frozen=True)
class ItemSource:
    """The evaluations that a version's questions are judged by.

    ways: one row for each way of asking, most models first, with `evaluation` (one of that way), `protocol`, `shots`,
    `variants`, `part` and `models`. way: the row of the one that was taken. evaluations: id and seal of those used.
    """

    benchmark: str
    version: str
    version_id: int
    ways: tuple[Row, ...]
    way: Row | None
    evaluations: tuple[tuple[int, str], ...]

    @property
    def key(self) -> str:
        """What stands for everything that is computed from them: sealed evaluations do not change."""
        return f"{self.version_id}: " + " ".join(f"{number} {seal}" for number, seal in self.evaluations)


def item_source(session: Session, version: BenchmarkVersion, like: int | None = None) -> ItemSource:
    """The way of asking that most models share, the newest of those that equally many do; or that of evaluation `like`.

    Raises UsageError where `like` is no complete evaluation of this version that counts.
    """
    ways = _ways(session, version.id)
    name = version.benchmark.name
    chosen = next(iter(ways), None)
    if like is not None:
        chosen = next((way for way in ways if like in way["every"]), None)
        if chosen is None:
            raise UsageError(f"evaluation {like} is no complete evaluation of {name}@{version.version} that counts")
    used = [] if chosen is None else _spread(chosen["newest"], chosen["prompts"])
    shown = [
        {key: way[key] for key in ("evaluation", "protocol", "shots", "variants", "part", "models")} for way in ways
    ]
    return ItemSource(
        benchmark=name,
        version=version.version,
        version_id=version.id,
        ways=tuple(shown),
        way=None if chosen is None else shown[ways.index(chosen)],
        evaluations=tuple(used),
    )


def _ways(session: Session, version_id: int) -> list[Row]:
    """Each way in which a version was asked, most models first; `newest`: (id, seal) of each model's evaluation."""
    specified = type_coerce(Evaluation.specification, JSON())["questions"]
    query = (
        with_names(
            select(
                Evaluation.id,
                Evaluation.seal,
                Evaluation.prompts,
                Evaluation.asked_digest,
                case((Evaluation.questions < BenchmarkVersion.questions, specified), else_=null()).label("part"),
                *NAMES,
            )
        )
        .where(Evaluation.benchmark_version_id == version_id, Evaluation.seal.is_not(None), not_withdrawn())
        .order_by(ModelRevision.number, Evaluation.id)
    )
    found: dict[str, Row] = {}
    for row in rows_of(session, query):
        way = found.setdefault(row["asked_digest"], {"of_model": {}, "every": set()})
        way.update({name: row[name] for name in ("protocol", "shots", "variants", "prompts")})
        way["part"] = part_label(row["part"] or {})[2:-1] or None
        way["every"].add(row["id"])
        way["of_model"][row["model"]] = (row["id"], row["seal"])  # the newest comes last and stays
    for way in found.values():
        way["newest"] = sorted(way.pop("of_model").values())
        way["models"], way["evaluation"] = len(way["newest"]), max(way["every"])
    return sorted(found.values(), key=lambda way: (-way["models"], -way["evaluation"]))


def _spread(evaluations: Sequence[tuple[int, str]], prompts: int) -> list[tuple[int, str]]:
    """All of them, or as many as may be read, at even distances."""
    most = max(LEAST_MODELS, MOST_PREDICTIONS // max(prompts, 1))
    if len(evaluations) <= most:
        return list(evaluations)
    return [evaluations[place * len(evaluations) // most] for place in range(most)]


def item_document(session: Session, source: ItemSource) -> Row:
    """Reliability and every question with difficulty, discrimination and reasons for a second look, as JSON.

    items: the review queue first, which has a reason for each; the most suspicious first within both parts.
    With fewer than MINIMUM_MODELS models `reliability` is null and `items` empty.
    """
    from registry.statistics.items import MINIMUM_MODELS

    document: Row = {
        "benchmark": source.benchmark,
        "version": source.version,
        "way": source.way,
        "ways": list(source.ways),
        "models": len(source.evaluations),
        "models_needed": MINIMUM_MODELS,
        "questions": 0,
        "reliability": None,
        "queue": 0,
        "items": [],
    }
    if len(source.evaluations) < MINIMUM_MODELS:
        return document
    asked = _answers(session, source)
    if not asked.questions:
        return document
    items = _items(asked, _duplicates(session, source.version_id))
    return document | {
        "questions": len(asked.questions),
        "reliability": _reliability(asked.scores),
        "queue": sum(bool(item["reasons"]) for item in items),
        "items": items,
    }


@dataclass(frozen=True)
class _Answers:
    """questions: rows; votes: shares of a question's prompts, (models, questions, options); scores: of its key."""

    questions: list[Row]
    votes: "Floats"
    scores: "Floats"
    several_orders: bool


def _answers(session: Session, source: ItemSource) -> _Answers:
    """The answers to prompts that show a question with its own options; questions that every model has one for."""
    import numpy as np

    of = Question
    query = (
        select(of.id, of.external_id, of.subject, of.answer, of.n_options, of.refers_to_options, of.sorted_numeric)
        .where(of.benchmark_version_id == source.version_id, ~of.few_shot)
        .order_by(of.id)
    )
    questions = rows_of(session, query)
    ids = np.array([row["id"] for row in questions])
    places = 1 + max(row["n_options"] for row in questions)
    counts = np.zeros((len(source.evaluations), len(ids), places), np.float32)
    of_table = Prediction.__table__.c
    # One number a prompt, which is read several times sooner than a row of two; the first place is of no valid answer.
    packed = cast(of_table.question_id, BigInteger) * places + func.coalesce(of_table.chosen_option + 1, 0)
    for model, (evaluation_id, _) in enumerate(source.evaluations):
        shown = select(packed.label("packed")).where(
            of_table.evaluation_id == evaluation_id, of_table.own_options, of_table.question_shown
        )
        require_rows(session, evaluation_id)
        found = np.fromiter(session.execute(shown).scalars(), dtype=np.int64)
        cells = np.searchsorted(ids, found // places) * places + found % places
        counts[model] = np.bincount(cells, minlength=len(ids) * places).reshape(-1, places)
    prompts = counts.sum(axis=2)
    asked = (prompts > 0).all(axis=0)
    kept = [row for row, known in zip(questions, asked, strict=True) if known]
    votes = counts[:, asked, 1:] / prompts[:, asked, np.newaxis]
    keys = [row["answer"] for row in kept]
    scores = votes[:, np.arange(len(kept)), keys].astype(np.float64)
    return _Answers(kept, votes, scores, bool((prompts > 1).any()))


def _reliability(scores: "Floats") -> Row | None:
    from registry.statistics.items import alpha_interval, cronbach_alpha

    alpha, interval = cronbach_alpha(scores), alpha_interval(scores)
    if alpha is None:
        return None
    return {
        "alpha": alpha,
        "interval": None if interval is None else [interval.low, interval.high],
        "kr20": bool(((scores == 0) | (scores == 1)).all()),
    }


def _items(asked: _Answers, duplicates: Mapping[int, tuple[str, bool]]) -> list[Row]:
    """Every question, ranked."""
    from registry.statistics import items as statistics

    options = [row["n_options"] for row in asked.questions]
    rivals, leads = statistics.rivals(
        statistics.weighted_votes(asked.votes, asked.scores, options), [row["answer"] for row in asked.questions]
    )
    likeliest, log_odds = statistics.latent_keys(
        asked.votes, asked.scores, [row["answer"] for row in asked.questions], options
    )
    strong = statistics.strongest(asked.scores).tolist()
    missed = ~asked.scores[strong].any(axis=0)
    difficulties = statistics.difficulties(asked.scores)
    discriminations = statistics.discriminations(asked.scores)
    found = []
    for place, row in enumerate(asked.questions):
        discrimination, lead = discriminations[place], float(leads[place])
        odds, latent = float(log_odds[place]), int(likeliest[place])
        several, rival = asked.several_orders, int(rivals[place])
        evidence = _Evidence(
            row, asked.votes[:, place], strong, rival, lead, latent, odds, several, bool(missed[place])
        )
        reasons = evidence.reasons(discrimination, duplicates.get(row["id"]))
        found.append(
            {
                "question_id": row["id"],
                "external_id": row["external_id"],
                "subject": row["subject"],
                "difficulty": _estimate(difficulties[place]),
                "discrimination": _estimate(discrimination),
                "answer": row["answer"],
                "rival": rival,
                "lead": lead,
                "latent_key": latent,
                "log_odds": odds,
                "suspicion": statistics.suspicion(lead, None if discrimination is None else discrimination.value, odds),
                "reasons": [{"reason": name, "found": text} for name, text in reasons.items()],
            }
        )
    found.sort(key=_rank)
    return [{"rank": number, **item} for number, item in enumerate(found, 1)]


def _rank(item: Row) -> tuple[bool, bool, float, int]:
    contradicts = any(reason["reason"] == "contradicting_duplicate" for reason in item["reasons"])
    return not item["reasons"], not contradicts, -item["suspicion"], item["question_id"]


def _estimate(found: "Estimate | None") -> Row | None:
    if found is None:
        return None
    return {"value": found.value, "interval": [found.interval.low, found.interval.high]}


@dataclass(frozen=True)
class _Evidence:
    """A question, its votes of shape (models, options), the rows of the strongest, and the other keys it may have.

    missed: whether none of the strongest is ever right.
    """

    question: Row
    votes: "Floats"
    strong: list[int]
    rival: int
    lead: float
    latent: int
    log_odds: float
    several_orders: bool
    missed: bool

    def reasons(self, discrimination: "Estimate | None", duplicate: tuple[str, bool] | None) -> dict[str, str]:
        """Names of REASONS to what was found."""
        found: dict[str, str] = {}
        if duplicate is not None:
            twin, contradicts = duplicate
            found["contradicting_duplicate" if contradicts else "duplicate"] = f"The same as {twin}."
        if self.lead > 0:
            of_all, of_strong = (self._choosing(votes) for votes in (self.votes, self.votes[self.strong]))
            found["other_option"] = (
                f"{letter(self.rival)} by {of_all[0]} of {len(self.votes)} models, the key "
                f"{letter(self.question['answer'])} by {of_all[1]}; by {of_strong[0]} and {of_strong[1]} of the "
                f"{len(self.strong)} strongest." + ("" if self.log_odds >= _TENFOLD else WEAK)
            )
        if self.log_odds >= _TENFOLD:
            found["latent_key"] = (
                f"The answers are {_about(self.log_odds)} times likelier with another key, above all "
                f"{letter(self.latent)}."
            )
        if self.missed:
            found["missed_by_strong"] = f"None of the {len(self.strong)} strongest is ever right."
        if discrimination is not None and discrimination.interval.high < 0:
            found["negative_discrimination"] = "All of the interval of its discrimination lies below zero."
        if self.several_orders and (wavering := self._wavering(self.votes[self.strong])):
            (one, other), models = wavering
            found["split"] = (
                f"{models} of the {len(self.strong)} strongest models answer {letter(one)} in some orders and "
                f"{letter(other)} in others."
            )
        for flag in ("refers_to_options", "sorted_numeric"):
            if self.question[flag]:
                found[flag] = f"{REASONS[flag][0]}."
        return found

    def _choosing(self, votes: "Floats") -> tuple[int, int]:
        """How many models choose the rival, and how many the key, in more than half of their prompts."""
        most = (votes > 0.5).sum(axis=0)
        return int(most[self.rival]), int(most[self.question["answer"]])

    def _wavering(self, strong: "Floats") -> tuple[tuple[int, int], int] | None:
        """The two options that most of the strongest models, at least half, divide their answers between."""
        pairs: Counter[tuple[int, int]] = Counter()
        for shares in strong:
            second, first = (int(option) for option in shares.argsort()[-2:])
            if shares[second] >= _OF_EACH and shares[first] + shares[second] >= _OF_TWO:
                pairs[min(first, second), max(first, second)] += 1
        for pair, models in pairs.most_common(1):
            if 2 * models >= len(strong):
                return pair, models
        return None


_ODDS: Final = ((1e6, "more than a million"), (1e4, "more than 10,000"), (1e3, "thousands of"), (1e2, "hundreds of"))


def _about(log_odds: float) -> str:
    """Odds in a word: models err together, so that more than an order of magnitude would say too much."""
    for least, words in _ODDS:
        if log_odds >= math.log(least):
            return words
    return f"about {10 * round(math.exp(log_odds) / 10):d}"


def _duplicates(session: Session, version_id: int) -> dict[int, tuple[str, bool]]:
    """Question to another with the same text and options in any order, and whether their keys are different texts.

    Letter case and white space do not count. One that contradicts is named before one that agrees.
    """
    of = Question
    asked = rows_of(
        session,
        select(of.id, of.external_id, of.text, of.context, of.answer)
        .where(of.benchmark_version_id == version_id, ~of.few_shot)
        .order_by(of.id),
    )
    by_text: dict[tuple[str, str], list[Row]] = {}
    for row in asked:
        by_text.setdefault((_plain(row["text"]), _plain(row["context"] or "")), []).append(row)
    alike = [row for rows in by_text.values() if len(rows) > 1 for row in rows]
    options: dict[int, list[str]] = {}
    for start in range(0, len(alike), 500):
        ids = [row["id"] for row in alike[start : start + 500]]
        texts = select(QuestionOption.question_id, QuestionOption.text).where(QuestionOption.question_id.in_(ids))
        for question_id, text in session.execute(texts.order_by(QuestionOption.question_id, QuestionOption.ordinal)):
            options.setdefault(question_id, []).append(_plain(text))
    found: dict[int, tuple[str, bool]] = {}
    for rows in by_text.values():
        for row in rows if len(rows) > 1 else ():
            own = options[row["id"]]
            same = [
                (options[other["id"]][other["answer"]] != own[row["answer"]], other["external_id"])
                for other in rows
                if other is not row and sorted(options[other["id"]]) == sorted(own)
            ]
            if same:
                contradicts = any(differs for differs, _ in same)
                found[row["id"]] = next(name for differs, name in same if differs == contradicts), contradicts
    return found


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
