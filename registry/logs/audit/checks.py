"""Results and faults of a single log."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from registry.logs.audit.catalogue import KINDS, Finding
from registry.logs.audit.gathered import STATES, Column, Gathered, Questions
from registry.logs.audit.known import Benchmark, benchmark_of
from registry.logs.format import QUESTIONS
from registry.logs.formats import FORMATS
from registry.logs.means import Means, tolerance
from registry.logs.record import NOT_MULTIPLE_CHOICE, SEVERAL_RIGHT
from registry.metrics import METRICS, VariantOutcome
from registry.metrics.outcome import as_asked
from registry.names import plural
from registry.prompting.labels import letter
from registry.statistics.guessing import compare_with_guessing
from registry.statistics.noise import pairs_of
from registry.statistics.proportions import score_interval

FEW: Final = 100
LEAST: Final = 20
"""The fewest answers for judging distributions and guessing."""
FEWEST: Final = 5
"""The fewest questions that can be repeated on purpose: among fewer, equal ones under several ids are a fault."""
CLEARLY: Final = 1e-3
ABOVE: Final = 1.959964
"""How many standard errors orders must differ more than repeats do."""
OVER_ORDERS: Final = (
    "average_accuracy",
    "worst_accuracy",
    "best_accuracy",
    "fluctuation_rate",
    "score",
    "right_twice_same_order",
    "right_twice_across_orders",
    "chance_loss",
    "order_loss",
)


@dataclass
class Orders:
    """Results over several orders of the same questions.

    metrics: by name, over `questions`. repeats: the share of pairs of repeats that differ; None without repeats.
    """

    questions: int
    orders: int
    metrics: dict[str, float | None]
    repeats: float | None


@dataclass
class Checked:
    """A log with its results. Shares are in [0, 1]; None if unknown.

    questions: number of different ones. keys, chosen: how often each position is right, and is chosen. letter: the
    position that would score best as a constant answer, and its share. right: question number → mean of its answers.
    """

    gathered: Gathered
    answers: int
    questions: int
    accuracy: float | None
    interval: tuple[float, float] | None
    stated: float | None
    chance: float | None
    letter: tuple[str, float] | None
    keys: list[int]
    chosen: list[int]
    states: dict[str, int]
    rules: dict[str, dict[str, int]]
    read_again: int
    benchmark: Benchmark | None
    orders: Orders | None
    right: dict[int, float]
    again: Column
    """For each record, whether it repeats an earlier prompt with the same answer; the two count once."""
    findings: list[Finding] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the JSON document."""
        source = self.gathered.source
        return {
            "log": self.gathered.label,
            "path": str(source.path),
            "format": source.format,
            "model": source.model,
            "task": source.task,
            "answers": self.answers,
            "questions": self.questions,
            "accuracy": self.accuracy,
            "interval": self.interval,
            "stated_accuracy": self.stated,
            "chance": self.chance,
            "always_one_letter": None
            if self.letter is None
            else {"letter": self.letter[0], "accuracy": self.letter[1]},
            "keys_by_position": self.keys,
            "answers_by_position": self.chosen,
            "states": self.states,
            "read_again": self.read_again,
            "other_rules": self.rules,
            "benchmark": None if self.benchmark is None else self.benchmark.document(),
            "orders": None if self.orders is None else vars(self.orders),
        }


class _Checker:
    def __init__(self, gathered: Gathered) -> None:
        self.gathered = gathered
        self.findings: list[Finding] = []

    def add(self, name: str, detail: str, count: int = 0, of: int = 0, places: Sequence[str] = ()) -> None:
        self.findings.append(
            Finding(KINDS[name], self.gathered.label, detail, count, of, tuple(places[: self.gathered.most_places]))
        )

    def rows(self, name: str, detail: str, mask: Column, of: int) -> None:
        """Add a finding with the rows of the mask as its places."""
        if mask.any():
            rows = np.flatnonzero(mask)
            self.add(
                name,
                detail,
                len(rows),
                of,
                [self.gathered.place(int(row)) for row in rows[: self.gathered.most_places]],
            )


def check(gathered: Gathered) -> Checked:
    """Check one log that has been read completely."""
    c = _Checker(gathered)
    source, total = gathered.source, len(gathered)
    key, right, question = gathered.column("key"), gathered.column("right"), gathered.column("question")
    has_answers = source.format != QUESTIONS and total > 0
    _add_noted(c, total)
    variants = _repeats_questions(gathered)
    again = _check_records(c, variants=variants)
    scored = (right >= 0) & ~again
    _check_questions(c, variants=variants)
    accuracy = interval = best = chance = None
    means: dict[int, float] = {}
    keys = np.bincount(key[(key >= 0) & ~again], minlength=2)
    chosen = np.zeros(len(keys), dtype=np.int64)
    if has_answers:
        position = gathered.column("position")
        width = max(len(keys), int(position.max(initial=-1)) + 1)
        chosen = np.bincount(position[(position >= 0) & ~again], minlength=width)
        keys = np.pad(keys, (0, width - len(keys)))
    if has_answers and scored.any():
        numbers, inverse = np.unique(question[scored], return_inverse=True)
        sums, counts = np.bincount(inverse, weights=right[scored]), np.bincount(inverse)
        per_question = sums / counts
        means = dict(zip(numbers.tolist(), per_question.tolist(), strict=True))
        accuracy = float(right[scored].mean())
        error = float(per_question.std(ddof=1) / math.sqrt(len(numbers))) if len(numbers) > 1 else 0.0
        low, high = score_interval(np.array(accuracy), np.array(error), len(numbers), 1.959964)
        interval = float(low), float(high)
        chance = float((1 / gathered.column("n_options")[scored]).mean())
        top = int(np.argmax(keys))
        best = letter(top), float(keys[top] / scored.sum())
        _check_scores(c, accuracy, interval, chance, best, len(numbers), scored)
    _check_positions(c, keys, total if has_answers else 0, again, chance=chance)
    benchmark = _check_benchmark(c)
    orders = _check_orders(c) if has_answers else None
    states = np.bincount(gathered.column("state"), minlength=len(STATES)) if has_answers else np.zeros(len(STATES), int)
    states_by_name = {name: int(count) for name, count in zip(STATES, states, strict=True)}
    if has_answers:
        _check_states(c, states_by_name, total)
    rules = {
        name: {"answered": counts[0], "otherwise": counts[1], "right": counts[2]}
        for name, counts in gathered.rules.items()
    }
    return Checked(
        gathered=gathered,
        answers=total if has_answers else 0,
        questions=len(np.unique(question)),
        accuracy=accuracy,
        interval=interval,
        stated=source.stated,
        chance=chance,
        letter=best,
        keys=keys.tolist(),
        chosen=chosen.tolist(),
        states=states_by_name,
        rules=rules if gathered.read_again else {},
        read_again=gathered.read_again,
        benchmark=benchmark,
        orders=orders,
        right=means,
        again=again,
        findings=c.findings,
    )


_LEAST_SHARES: Final = {
    "answers-lost": 0.01,
    "answers-misread": 0.02,
    "rules-disagree": 0.05,
    "thought-read": 0.0,
    # Noted only if the reader must itself interpret the answer.
    "score-contradicts-answer": 0.01,
}
_LEAST_COUNTS: Final = {
    "answers-lost": 2,
    "answers-misread": 2,
    "score-contradicts-answer": 2,
    # One prompt of many is a question about persons A and B.
    "labels-missing-in-instruction": 2,
    "labels-beyond-options": 2,
}


def _add_noted(c: _Checker, total: int) -> None:
    """Add the findings noted while records were read."""
    g = c.gathered
    for noted, count in g.counts.items():
        # If other records of the log list options, a record without them is a fault.
        name = "unusable-answer" if noted == NOT_MULTIPLE_CHOICE and total else noted
        name = NOT_MULTIPLE_CHOICE if noted == SEVERAL_RIGHT else name
        of = g.read_again if name in _LEAST_SHARES else g.prompts if KINDS[name].id.startswith("SB6") else total
        if count < min(_LEAST_COUNTS.get(name, 1), total) or count <= _LEAST_SHARES.get(name, -1) * of:
            continue
        c.add(name, g.details.get(noted, ""), count, max(of, count), g.found[noted])
    edges = ("begins", "ends") if "answer-in-prompt" not in g.counts else ("begins",)
    for edge in edges if "truncated-prompt" not in g.counts else ():
        odd, places = g.edges[edge].odd()
        if odd:
            c.add("truncated-prompt", f"it {edge} otherwise than all others", odd, g.prompts, places)


def _repeats_questions(g: Gathered) -> bool:
    """Return whether the log repeats its questions on purpose: at least half of them occur more than once."""
    if not len(g):
        return False
    counts = np.bincount(g.column("question"))
    counts = counts[counts > 0]
    has_ids = len(g.ids) == len(counts)
    return bool((counts > 1).mean() >= 0.5) and (has_ids or len(counts) >= FEWEST)


def _check_records(c: _Checker, *, variants: bool) -> Column:
    """Check records with the same id: they are the same prompt twice, or two questions.

    Returns for each row whether it repeats an earlier prompt with the same answer: the two count once.
    """
    g = c.gathered
    is_repeat = np.zeros(len(g), dtype=bool)
    if not len(g):
        return is_repeat
    ids, question = g.column("row_id"), g.column("question")
    # Variants may remove or add options, so only different texts are different questions.
    texts = np.frombuffer(g.questions.text, dtype=np.dtype("q"))[question]
    pairs = np.unique(np.stack([ids, texts], axis=1)[texts != 0], axis=0)
    twice = np.flatnonzero(np.bincount(pairs[:, 0]) > 1) if len(pairs) else np.zeros(0, int)
    if len(twice):
        rows = [int(np.flatnonzero(ids == name)[-1]) for name in twice[: g.most_places]]
        c.add("id-used-twice", "", len(twice), len(g.ids), [g.place(row) for row in rows])
    variant = g.column("variant")
    prompts = np.stack([ids, question, g.column("order"), variant], axis=1).astype(np.int64)
    order = np.lexsort(prompts.T[::-1])
    equal = (prompts[order][1:] == prompts[order][:-1]).all(axis=1)
    if not equal.any():
        return is_repeat
    first, second = order[:-1][equal], order[1:][equal]
    swap = first > second
    first[swap], second[swap] = second[swap], first[swap]
    stated = g.column("stated")
    differ = (g.column("chosen")[first] != g.column("chosen")[second]) | (
        np.abs(np.nan_to_num(stated[first], nan=-1) - np.nan_to_num(stated[second], nan=-1)) > 1e-6
    )
    differ |= g.column("keyed")[first] != g.column("keyed")[second]
    if variants and (variant < 0).all() and differ.any():
        return is_repeat  # repeats without numbers: they are noise, not faults
    for name, mask in (("answered-twice-differently", differ), ("answered-twice", ~differ)):
        if mask.any():
            at = np.argsort(second[mask])[: g.most_places]
            places = [f"{g.place(int(first[mask][i]))} and {g.noun} {g.places[int(second[mask][i])]}" for i in at]
            c.add(name, "", int(mask.sum()), len(g), places)
    is_repeat[second[~differ]] = True
    return is_repeat


def _check_questions(c: _Checker, *, variants: bool) -> None:
    """Check questions that have several ids or several keys."""
    g = c.gathered
    if not len(g):
        return
    question, ids, keyed = g.column("question"), g.column("row_id"), g.column("keyed")
    has_key = keyed != 0
    texts = np.frombuffer(g.questions.text, dtype=np.dtype("q"))[question] != 0
    pairs = np.unique(np.stack([question, ids], axis=1)[texts], axis=0)
    several = np.flatnonzero(np.bincount(pairs[:, 0]) > 1) if len(pairs) else np.zeros(0, int)
    if len(several) and not variants and g.questions.first_told("duplicates", several.tobytes()):
        c.add(
            "duplicate-questions",
            "",
            len(several),
            len(np.unique(question)),
            [_find_places(g, q) for q in several[: g.most_places]],
        )
    keys = np.unique(np.stack([question, keyed], axis=1)[has_key & texts], axis=0)
    contradictory = np.flatnonzero(np.bincount(keys[:, 0]) > 1) if len(keys) else np.zeros(0, int)
    if len(contradictory) and g.questions.first_told("contradictions", contradictory.tobytes()):
        places = [_find_places(g, q) for q in contradictory[: g.most_places]]
        c.add("contradictory-keys", "", len(contradictory), len(np.unique(question)), places)
    unique = np.unique(question)
    near_pairs = find_near_pairs(g.questions, unique) if g.questions.first_told("near", unique.tobytes()) else []
    if near_pairs:
        places = [
            f"{_find_place(g, first)} and {_find_place(g, second)}" for first, second in near_pairs[: g.most_places]
        ]
        c.add("near-duplicate-questions", "", len(near_pairs), len(np.unique(question)), places)


def _find_place(g: Gathered, question: int) -> str:
    return g.place(int(np.flatnonzero(g.column("question") == question)[0]))


def _find_places(g: Gathered, question: int) -> str:
    rows = np.flatnonzero(g.column("question") == question)
    ids = g.column("row_id")[rows]
    firsts = rows[np.sort(np.unique(ids, return_index=True)[1])]
    if len(firsts) < 2:
        keyed = g.column("keyed")[rows]
        firsts = rows[np.sort(np.unique(keyed, return_index=True)[1])]
    return " and ".join(g.place(int(row)) for row in firsts[:2])


SIMILAR: Final = 0.75


def find_near_pairs(questions: Questions, numbers: Column) -> list[tuple[int, int]]:
    """Return the pairs of question numbers whose words are nearly the same.

    Two texts are near if they share three quarters of the smallest digests of their words, three in a row (bottom-k
    sketch; Broder, *On the resemblance and containment of documents*, 1997), and have the same numbers and negations,
    which distinguish near texts.
    """
    buckets: dict[tuple[int, int], list[int]] = {}
    pairs: list[tuple[int, int]] = []
    for number in numbers.tolist():
        sketch = questions.sketches[number]
        if sketch is None:
            continue
        compared: set[int] = set()
        for smallest in sketch[1][:3].tolist():
            bucket = buckets.setdefault((sketch[0], smallest), [])
            for other in bucket:
                if other not in compared:
                    compared.add(other)
                    theirs = questions.sketches[other]
                    assert theirs is not None
                    if _are_similar(sketch[1], theirs[1]) and _are_similar(sketch[2], theirs[2]):
                        pairs.append((other, number))
            if len(bucket) < 50:
                bucket.append(number)
    return pairs


def _are_similar(first: NDArray[np.uint32], second: NDArray[np.uint32]) -> bool:
    union = np.union1d(first, second)[: max(len(first), len(second))]
    common = np.intersect1d(np.intersect1d(first, union), np.intersect1d(second, union))
    return len(common) >= SIMILAR * len(union)


def _check_scores(
    c: _Checker,
    accuracy: float,
    interval: tuple[float, float],
    chance: float,
    best: tuple[str, float],
    questions: int,
    scored: Column,
) -> None:
    g, source = c.gathered, c.gathered.source
    stated, right = g.column("stated"), g.column("right")
    has_score = ~np.isnan(stated) & scored
    # If two options are equal, a comparison of texts accepts both, and a reference by text does not show which is
    # meant.
    wrong = has_score & (np.abs(stated - right) > 0.5 + 1e-6) & ~g.column("repeated").astype(bool)
    c.rows("score-contradicts-answer", "", wrong, int(has_score.sum()))
    left_out = ("unusable-answer", "unreadable-file", "failed-samples")
    if source.stated is not None and not any(g.counts[name] for name in left_out):
        differences = [abs(source.stated - accuracy)]
        if has_score.any():
            differences.append(abs(source.stated - float(stated[has_score].mean())))
        allowed = tolerance(source.stated)
        contradicts = len(differences) == 1 or min(differences) > allowed or wrong.any()
        if differences[0] > allowed and contradicts and not _is_mean_over_a_field(g, scored, source.stated):
            detail = f"stated {source.stated:.2%}, its {int(scored.sum())} answers give {accuracy:.2%}"
            with_repeats = float(right[right >= 0].mean())
            if (right >= 0).sum() > scored.sum() and abs(source.stated - with_repeats) <= allowed:
                detail += f"; it counts {plural(int((right >= 0).sum() - scored.sum()), 'repeated answer')} twice"
            c.add("stated-accuracy-differs", detail)
    guessing = compare_with_guessing(chance, accuracy, questions, *interval)
    if questions >= LEAST and guessing is not None and guessing.relation != "better":
        c.add("no-better-than-guessing", f"{accuracy:.1%} [{interval[0]:.1%}, {interval[1]:.1%}], chance {chance:.1%}")
    elif questions >= LEAST and best[1] >= accuracy:
        c.add("one-letter-does-better", f"always {best[0]}: {best[1]:.1%}, the log {accuracy:.1%}")
    form = FORMATS.get(source.format)
    if source.stated is None and not has_score.any() and form is not None and form.scores:
        c.add("no-scores", form.scores)
    if questions < FEW:
        c.add(
            "few-questions", f"{plural(questions, 'question')}: {accuracy:.1%} [{interval[0]:.1%}, {interval[1]:.1%}]"
        )


def _is_mean_over_a_field(g: Gathered, scored: Column, overall: float) -> bool:
    """Return whether an overall score is a mean over the values of a field that all records have."""
    means, right, stated = Means(), g.column("right"), g.column("stated")
    for row in np.flatnonzero(scored).tolist():
        score = float(stated[row])
        means.add(g.fields.of(row), None if math.isnan(score) else score, bool(right[row]))
    return means.find(overall, int(scored.sum())) is not None


def _check_positions(c: _Checker, keys: Column, answers: int, again: Column, *, chance: float | None) -> None:
    from scipy.special import bdtr, chdtrc  # scipy.stats takes two seconds to load

    g = c.gathered
    n_options, key = g.column("n_options"), g.column("key")
    has_key = (key >= 0) & ~again
    total = int(has_key.sum())
    if total >= LEAST:
        widths = np.bincount(n_options[has_key], minlength=len(keys) + 1)
        expected = np.array([sum(widths[n] / n for n in range(at + 1, len(widths)) if n) for at in range(len(keys))])
        usable = expected > 0
        if int((keys > 0).sum()) == 1:
            c.add("keys-at-one-position", f"always {letter(int(np.argmax(keys)))}", total, total)
        elif usable.sum() > 1:
            statistic = float((((keys - expected) ** 2)[usable] / expected[usable]).sum())
            excess = (keys - expected) / total
            if chdtrc(int(usable.sum()) - 1, statistic) < CLEARLY and excess.max() >= 0.1:
                top = int(np.argmax(excess))
                detail = f"{letter(top)} is right in {keys[top] / total:.0%}, {expected[top] / total:.0%} if even"
                c.add("keys-uneven", detail, int(keys[top]), total)
    if answers < LEAST or chance is None:
        return
    position = g.column("position")
    answered = has_key & (position >= 0)
    if not answered.any():
        return
    shifts: list[tuple[float, int]] = []
    for at in range(len(keys)):
        only_chosen = int(((position == at) & (key != at) & answered).sum())
        only_key = int(((position != at) & (key == at) & answered).sum())
        difference = (only_chosen - only_key) / int(answered.sum())
        p_value = 2 * bdtr(min(only_chosen, only_key), only_chosen + only_key, 0.5)  # McNemar's exact test
        if abs(difference) >= 0.1 and p_value * len(keys) < CLEARLY:
            shifts.append((abs(difference), at))
    if shifts:
        at = max(shifts)[1]
        of = int(answered.sum())
        chosen, right = (position[answered] == at).mean(), (key[answered] == at).mean()
        detail = f"{letter(at)} is chosen in {chosen:.0%} and right in {right:.0%}"
        c.add("answers-uneven", detail, int((position[answered] == at).sum()), of)


_STATE_FINDINGS: Final[tuple[tuple[str, str, float], ...]] = (
    ("unread", "unread-answers", 0.05),
    ("unfinished", "unfinished-answers", 0.01),
    ("empty", "empty-answers", 0.01),
    ("refused", "refused-answers", 0.0),
)


def _check_states(c: _Checker, states: dict[str, int], total: int) -> None:
    g = c.gathered
    lost = g.counts["answers-lost"]
    for state, name, least in _STATE_FINDINGS:
        count = states[state] - (lost if state == "unread" else 0)
        if count > least * total:
            rows = np.flatnonzero(g.column("state") == STATES.index(state))[: g.most_places]
            c.add(name, f"{count / total:.1%} of the answers", count, total, [g.place(int(row)) for row in rows])


def _check_benchmark(c: _Checker) -> Benchmark | None:
    g = c.gathered
    numbers, first = (
        np.unique(g.column("question"), return_index=True) if len(g) else (np.zeros(0, int), np.zeros(0, int))
    )
    digests = np.frombuffer(g.questions.known, dtype=np.uint64)[numbers] if len(numbers) else np.zeros(0, np.uint64)
    benchmark = benchmark_of(digests, numbers, g.column("keyed")[first])
    if benchmark is None:
        return None
    if benchmark.other_keys:
        places = [_find_place(g, number) for number in benchmark.other_keys[: g.most_places]]
        c.add(
            "key-differs-from-benchmark",
            f"published as {benchmark.name}",
            len(benchmark.other_keys),
            benchmark.matched,
            places,
        )
    expected = benchmark.count_expected(g.source.task)
    # A log with as many ids as the benchmark is no subset: its questions repeat, or are read otherwise than published.
    if max(benchmark.matched, len(g.ids)) < expected and not g.source.declared:
        c.add("undeclared-subset", f"of the questions of {benchmark.name}", benchmark.matched, expected)
    return benchmark


MOST_ORDERED: Final = 200_000
"""The most answers used for metrics over orders; if there are more, the first questions' are used and counted."""


def _check_orders(c: _Checker) -> Orders | None:
    """Compute robustness metrics if questions have several orders, and the noise if prompts were repeated."""
    g = c.gathered
    question, order = g.column("question"), g.column("order")
    if not len(g) or not _repeats_questions(g):
        return None
    keyed, chosen, variant = g.column("keyed"), g.column("chosen"), g.column("variant")
    # A wrong option may have the text of the right one.
    chosen = np.where((chosen == keyed) & (g.column("right") == 0), -1, chosen)
    rows = np.lexsort((np.arange(len(g)), variant, question))
    outcomes: list[list[VariantOutcome]] = []
    most_orders = answers = repeated = 0
    for group in _group_by_question(rows, question):
        if keyed[group[0]] == 0:
            continue
        if answers > MOST_ORDERED:
            break
        answers += len(group)
        kinds = {int(value): number for number, value in enumerate(dict.fromkeys(order[group].tolist()))}
        most_orders = max(most_orders, len(kinds))
        repeated = math.gcd(repeated, *(len(list(run)) for _, run in groupby(order[group].tolist())))
        options = {0: None, int(keyed[group[0]]): 0}
        outcomes.append(
            [
                VariantOutcome(
                    variant=at,
                    option=options.setdefault(int(chosen[row]), len(options)),
                    answer=0,
                    order=(kinds[int(order[row])],),
                    original=kinds[int(order[row])] == 0,
                )
                for at, row in enumerate(group)
            ]
        )
    if not outcomes:
        return None
    # Numbered as `repeats` does: of repeats, the papers' metrics take the first. An order may have been drawn twice.
    sampled = False if g.scored == len(g) else None
    outcomes = [as_asked(question_, max(repeated, 1), sampled, recorded=True) for question_ in outcomes]
    tested = [question_ for question_ in outcomes if len({outcome.order for outcome in question_}) > 1]
    metrics = {name: METRICS[name].over_questions(tested)[0] for name in OVER_ORDERS} if tested else {}
    repeats = _compute_repeat_noise(outcomes)
    if tested and (metrics["fluctuation_rate"] or 0) > 0 and _exceeds_repeats(outcomes):
        detail = (
            f"of {len(tested):,} questions, right in every one of up to {most_orders} orders "
            f"{metrics['worst_accuracy']:.1%}, on average {metrics['average_accuracy']:.1%}; "
            f"{metrics['fluctuation_rate']:.1%} of the questions change"
        )
        c.add("order-changes-answers", detail)
    if repeats:
        c.add("repeats-differ", f"{repeats:.1%} of the pairs of repeats differ")
    return Orders(len(tested), most_orders, metrics, repeats)


def _group_by_question(rows: Column, question: Column) -> Iterator[Column]:
    edges = np.flatnonzero(np.diff(question[rows])) + 1
    yield from (group for group in np.split(rows, edges) if len(group) > 1)


def _exceeds_repeats(outcomes: Sequence[Sequence[VariantOutcome]]) -> bool:
    """Return whether answers to different orders differ more often than repeats of one order; True without repeats."""
    excess = []
    for question in outcomes:
        same, different = pairs_of([(outcome.order, outcome.option) for outcome in question])
        if same[1] and different[1]:
            excess.append(different[0] / different[1] - same[0] / same[1])
    if len(excess) < FEWEST:
        return True
    error = float(np.std(excess, ddof=1) / math.sqrt(len(excess)))
    return float(np.mean(excess)) > ABOVE * error


def _compute_repeat_noise(outcomes: Sequence[Sequence[VariantOutcome]]) -> float | None:
    """Return the share of pairs of answers to the same prompt that differ; None if no prompt was repeated."""
    shares = []
    for question in outcomes:
        same, _ = pairs_of([(outcome.order, outcome.option) for outcome in question])
        if same[1]:
            shares.append(same[0] / same[1])
    return float(np.mean(shares)) if shares else None
