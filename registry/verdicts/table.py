"""Every sentence about results: its text, its condition, and the places that show it.

A text contains the names of its words in braces (`registry.verdicts.words`). For each subject and topic, the first
sentence with a true condition is shown. `docs/verdicts.md` is made from this table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from registry.names import plural
from registry.verdicts import conditions as when
from registry.verdicts import words
from registry.verdicts.facts import Facts, Number
from registry.verdicts.subjects import Cell, Concluded, Listed, ModelFacts, Neighbours


@dataclass(frozen=True)
class Sentence:
    """A row of the table: the condition, the text, the topic, and whether the subject's command follows the text."""

    holds: Callable[[Any], bool]
    text: str
    topic: str = "conclusion"
    command: bool = False

    @property
    def name(self) -> str:
        """Return the name of its condition."""
        return self.holds.__name__.replace("_", "-")


@dataclass(frozen=True)
class Subject:
    """A subject of sentences. shown: the places that show them. words: returns the words in their braces."""

    shown: str
    words: Callable[[Any], Mapping[str, str]]
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Said:
    """A sentence that is shown, with the name of its row, its topic, and the command at its end."""

    name: str
    topic: str
    text: str
    command: str | None = None

    def __str__(self) -> str:
        return self.text if self.command is None else f"{self.text} {self.command}"


UNREADABLE: Final = "More than half of its answers are missing"
TABLE: Final[Mapping[str, Subject]] = {
    "evaluation": Subject(
        "The page of an evaluation and `evaluations metrics`",
        words.evaluation_words,
        (
            Sentence(
                when.mostly_unread,
                "{unread} of its answers {missing}, so it has no verdict, no rank and no place in a chart.",
                topic="unread",
            ),
            Sentence(
                when.partly_unread,
                "{unread} of its answers {missing} and count as wrong{of_those_read}.",
                topic="unread",
            ),
            Sentence(
                when.tied_answers,
                "In {tied} of its answers several options were equally probable and the first counts as chosen, so "
                "nothing is said about positions or {varied}.",
                topic="tied",
            ),
            Sentence(when.surely_guesses, "Its accuracy is no better than guessing ({chance}): {right}."),
            Sentence(when.perhaps_guesses, "Cannot be distinguished from guessing ({chance}): {right}."),
            Sentence(when.untested, "{asked}: nothing is known about other orders."),
            Sentence(when.same_answers, "Its answers are the same in every {level} tried."),
            Sentence(when.order_costs, "{twice}: changing {varied} costs {order_loss} of that{order_loss_between}."),
            Sentence(when.order_costs_little, "{twice}: changing {varied} costs at most {order_loss_most} of that."),
            Sentence(when.order_unsure, "{twice}: {unsure} to say that the difference comes from {varied}."),
            Sentence(
                when.chance_inside, "Chance may be part of what changes here: {sampled}, and no prompt was repeated."
            ),
            Sentence(when.has_accuracy, "Right on {right} of the questions{as_printed}.", topic="accuracy"),
            Sentence(
                when.has_worst_accuracy,
                "Right in {every_level}: {worst_accuracy}{worst_accuracy_between}.",
                topic="worst",
            ),
            Sentence(
                when.has_noise,
                "Two answers to one prompt{elsewhere} differ in {repeats_differ} of pairs{net_of_noise}{unexpected}.",
                topic="noise",
            ),
            Sentence(
                when.can_ask_again,
                "To separate chance from {varied}, ask each prompt again:",
                topic="again",
                command=True,
            ),
        ),
    ),
    "model": Subject(
        "The page of a model",
        words.model_words,
        (
            Sentence(when.not_evaluated, "Not evaluated yet."),
            Sentence(
                when.unread_everywhere,
                "More than half of its answers are missing on {unread_on}, so there is no verdict.",
            ),
            Sentence(when.guesses_everywhere, "Cannot be distinguished from guessing on {readable_on}."),
            Sentence(when.is_told, "{benchmark}: {conclusion}"),
            Sentence(when.nothing_clear, "Nothing is clear about other orders on {above_chance_on}."),
        ),
    ),
    "list": Subject(
        "Above the leaderboard",
        words.listed_words,
        (Sentence(when.listed_order_costs, "{model}, {benchmark}{variants}: {conclusion}"),),
    ),
    "board": Subject(
        "Above a board, on pages and in the terminal",
        words.board_words,
        (
            Sentence(
                when.board_unread,
                "More than 5\u202f% of the answers of {unread} are missing and count as wrong.",
                topic="unread",
            ),
            Sentence(when.board_untested, "Asked in one order: nothing is known about other orders."),
            Sentence(
                when.board_order_costs,
                "Changing the order costs {costly} right answers{which}: {twice}; the order costs {cost} of that"
                "{cost_between}.",
            ),
            Sentence(
                when.board_no_cost, "No cost of changing the order is clear in {known} when all are looked at together."
            ),
            Sentence(
                when.board_chance,
                "Chance may be part of what changes between orders: answers are or may be sampled, and no prompt was "
                "repeated.",
            ),
            Sentence(when.board_unsure, "Too few questions differ to say that changing the order costs right answers."),
            Sentence(when.board_guesses, "{guessing} cannot be distinguished from guessing.", topic="guessing"),
        ),
    ),
    "pair": Subject(
        "The comparison of two evaluations",
        words.pair_words,
        (
            Sentence(when.pair_unread, "{unread} are missing and count as wrong.", topic="unread"),
            Sentence(
                when.pair_unreadable,
                "More than half of the answers of {unreadable} are missing, so neither is called better.",
            ),
            Sentence(when.pair_equal, "The two are equal: {label} {value} for both."),
            Sentence(
                when.pair_apart,
                "{better} is better: {label} {value} against {other}, a difference of "
                "{difference}{difference_between}.",
            ),
            Sentence(
                when.pair_not_apart,
                "The two cannot be distinguished: {label} {value} for {better} and {other} for {worse}, a difference "
                "of {difference}{difference_between}.",
            ),
        ),
    ),
    "several": Subject(
        "The comparison of several models",
        words.several_words,
        (
            Sentence(
                when.several_unread, "More than half of the answers of {unread} are missing, so none is called better."
            ),
            Sentence(when.several_few, "{best} is first: {label} {value}; {few} to say how certain that is."),
            Sentence(when.several_apart, "{best} is first: {label} {value}, better than {others}."),
            Sentence(
                when.several_level,
                "{best} is first: {label} {value}; it cannot be distinguished from {level}.",
            ),
        ),
    ),
    "neighbours": Subject(
        "Below a board, on pages and in the terminal",
        words.neighbours_words,
        (
            Sentence(when.two_neighbours, "The two models {can} be distinguished."),
            Sentence(
                when.more_neighbours,
                "{apart} of {pairs} pairs of neighbours, and {all_apart} of {all_pairs} pairs of models, can be "
                "distinguished when all pairs are compared at once.",
            ),
        ),
    ),
    "position": Subject(
        "Above the chart of positions",
        words.position_words,
        (
            Sentence(
                when.position_preferred,
                "It chooses {letter} more often than {letter} is right: in {chosen} of the prompts against {right}.",
            ),
            Sentence(
                when.no_position_preferred,
                "No position is clearly chosen more often than it is right; {letter} comes closest, in {chosen} of "
                "the prompts against {right}.",
            ),
        ),
    ),
    "cell": Subject(
        "Below an accuracy in a table",
        words.cell_words,
        (
            Sentence(when.cell_guesses, "no better than guessing"),
            Sentence(when.cell_may_guess, "cannot be distinguished from guessing"),
            Sentence(when.cell_near_guesses, "{above} above guessing"),
        ),
    ),
    "chart": Subject(
        "Below the chart of accuracy and worst accuracy, for those without a point",
        words.evaluation_words,
        (
            Sentence(when.chart_unread, UNREADABLE),
            Sentence(when.chart_unlisted, "Its protocol does not list the options, so no order was shown"),
            Sentence(when.chart_other, "Its prompts differ in {varied}, not in the order of the options"),
            Sentence(when.chart_chance, "Chance may be part of its worst accuracy"),
        ),
    ),
}
"""Subject → its sentences, in the order in which they are shown."""


def say(about: str, subject: Any) -> tuple[Said, ...]:
    """Return the sentences about a subject: for each topic, the first with a true condition."""
    shown: dict[str, Said] = {}
    for row in TABLE[about].sentences:
        if row.topic not in shown and row.holds(subject):
            command = subject.repeat if row.command else None
            text = row.text.format_map(TABLE[about].words(subject))
            shown[row.topic] = Said(row.name, row.topic, text, command)
    return tuple(shown.values())


def conclude(about: str, subject: Any) -> Said | None:
    """Return the sentence of the topic "conclusion"; None if no condition is true."""
    return next((sentence for sentence in say(about, subject) if sentence.topic == "conclusion"), None)


def conclusion(facts: Facts) -> Said | None:
    """Return the conclusion about one evaluation."""
    return conclude("evaluation", facts)


def note_guessing(chance: float | None, value: float, n: int, low: float | None, high: float | None) -> str:
    """Return the note below an accuracy over n questions with this interval, if any; empty above guessing."""
    sentence = conclude("cell", Cell(Number(value, n, low, high), chance))
    return "" if sentence is None else sentence.text


def no_point(facts: Facts) -> str | None:
    """Return why an evaluation has no point in the chart of accuracy and worst accuracy; None if it has one."""
    sentence = conclude("chart", facts)
    return None if sentence is None else sentence.text


def judge_model(evaluations: Sequence[Facts]) -> Said | None:
    """Return the sentence about a model, from its complete evaluations."""
    return conclude("model", ModelFacts([Concluded(facts, _text(facts)) for facts in evaluations]))


def _text(facts: Facts) -> str | None:
    sentence = conclusion(facts)
    return None if sentence is None else sentence.text


def judge_listed(evaluations: Sequence[Facts]) -> list[tuple[Facts, Said]]:
    """Return the sentences above a list: one for each model with a clear cost of the order, the largest first."""
    looked_at = sum(facts.tested and not facts.guesses and not facts.unreadable for facts in evaluations)
    by_model: dict[str, tuple[Facts, Said]] = {}
    for facts in sorted(evaluations, key=_loss, reverse=True):
        sentence = conclude("list", Listed(facts, _text(facts), max(1, looked_at)))
        if sentence is not None:
            by_model.setdefault(facts.model, (facts, sentence))
    return list(by_model.values())


def _loss(facts: Facts) -> float:
    cost = facts.number("order_loss")
    return 0.0 if cost is None else cost.value


def judge_uncertainty(together: Mapping[str, Any]) -> str | None:
    """Return the sentence that names the small task that causes most of the uncertainty; None if there is none.

    together: the values of a column over all models, in a snapshot's document.

    >>> judge_uncertainty({"uncertainty": {"task": "tiny", "questions": 12, "share": 0.71}})
    'tiny (12 questions) carries 71\u202f% of the uncertainty.'
    """
    uncertainty = together.get("uncertainty")
    if uncertainty is None:
        return None
    questions = plural(uncertainty["questions"], "question")
    return f"{uncertainty['task']} ({questions}) carries {100 * uncertainty['share']:.0f}\u202f% of the uncertainty."


def judge_neighbours(together: Mapping[str, Any]) -> Said | None:
    """Return the sentence about a board's neighbours. together: as for `judge_uncertainty`."""
    keys = ("neighbours", "neighbours_told_apart", "pairs", "pairs_told_apart")
    return conclude("neighbours", Neighbours(*(together[key] for key in keys)))
