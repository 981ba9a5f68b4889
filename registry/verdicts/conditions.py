"""The conditions of sentences. The first line of a docstring is printed in docs/verdicts.md."""

from registry.verdicts.facts import SAID_FIRST, Facts
from registry.verdicts.subjects import (
    CLEARLY,
    FEW,
    NEAR,
    POWER,
    SEEN,
    BoardFacts,
    Cell,
    Listed,
    ModelFacts,
    Neighbours,
    Pair,
    Position,
    Several,
    clear_loss,
)


def mostly_unread(facts: Facts) -> bool:
    """Return whether more than half of the answers are missing."""
    return facts.unreadable


def partly_unread(facts: Facts) -> bool:
    """Return whether more than 5 % of the answers are missing, but not more than half."""
    return facts.reading.share > SAID_FIRST and not facts.unreadable


def tied_answers(facts: Facts) -> bool:
    """Return whether more than 1 % of the answers are tied, and at least half of all could be read."""
    return facts.many_tied and not facts.unreadable


def surely_guesses(facts: Facts) -> bool:
    """Return whether the 95 % interval of accuracy lies within 2 points of the chance level or below."""
    return not facts.unreadable and facts.against_guessing == "no better"


def perhaps_guesses(facts: Facts) -> bool:
    """Return whether the 95 % interval of accuracy includes the chance level."""
    return not facts.unreadable and facts.against_guessing == "not distinguished"


def untested(facts: Facts) -> bool:
    """Return whether no question has answers to two different prompts."""
    return not facts.unreadable and not facts.tested


def order_is_told(facts: Facts) -> bool:
    """Return whether a sentence about orders is possible: tested, read, not tied, and better than guessing."""
    return facts.tested and not facts.unreadable and not facts.guesses and not facts.many_tied


def _has_order_loss(facts: Facts) -> bool:
    metrics = ("order_loss", "right_twice_same_order", "right_twice_across_orders")
    return order_is_told(facts) and all(facts.number(name) is not None for name in metrics)


def same_answers(facts: Facts) -> bool:
    """Return whether each question has one answer in all prompts, none is missing, and the model does not guess."""
    flips = facts.number("fluctuation_rate")
    return order_is_told(facts) and flips is not None and flips.value == 0 and not facts.reading.lost


def order_costs(facts: Facts) -> bool:
    """Return whether a 99 % interval of the order loss is above 0 and all that ties and missing answers explain."""
    return _has_order_loss(facts) and clear_loss(facts)


def order_costs_little(facts: Facts) -> bool:
    """Return whether the interval of the order loss begins at 0, or only its upper end is stated."""
    cost = facts.number("order_loss")
    return _has_order_loss(facts) and cost is not None and cost.bounded


def order_unsure(facts: Facts) -> bool:
    """Return whether the order loss has no interval, or ties or missing answers may explain it."""
    return _has_order_loss(facts) and not (order_costs(facts) or order_costs_little(facts))


def chance_inside(facts: Facts) -> bool:
    """Return whether answers are sampled, or may be, and no prompt was repeated."""
    return order_is_told(facts) and facts.chance_inside


def can_ask_again(facts: Facts) -> bool:
    """Return whether answers are sampled, no prompt was repeated, and the model can answer again."""
    return chance_inside(facts) and facts.repeat is not None


def has_accuracy(facts: Facts) -> bool:
    """Return whether accuracy is defined, at least half of the answers could be read, and the model does not guess."""
    return not facts.unreadable and not facts.guesses and facts.number("accuracy") is not None


def has_worst_accuracy(facts: Facts) -> bool:
    """Return whether worst accuracy is defined."""
    return order_is_told(facts) and facts.number("worst_accuracy") is not None


def has_noise(facts: Facts) -> bool:
    """Return whether a prompt was repeated."""
    return not facts.unreadable and facts.noise is not None


def not_evaluated(facts: ModelFacts) -> bool:
    """Return whether no evaluation is complete."""
    return not facts.evaluations


def unread_everywhere(facts: ModelFacts) -> bool:
    """Return whether in every evaluation more than half of the answers are missing."""
    return bool(facts.evaluations) and not facts.readable


def guesses_everywhere(facts: ModelFacts) -> bool:
    """Return whether no readable evaluation is distinguished from guessing."""
    return bool(facts.readable) and not facts.above_chance


def is_told(facts: ModelFacts) -> bool:
    """Return whether one evaluation has a conclusion that stays valid when all evaluations are considered together."""
    return facts.told is not None


def nothing_clear(facts: ModelFacts) -> bool:
    """Return whether some evaluations are readable and above chance, but no conclusion is valid for all together."""
    return bool(facts.above_chance) and not is_told(facts)


def listed_order_costs(one: Listed) -> bool:
    """Return whether the order loss is above 0 by an interval widened for the number of evaluations considered."""
    return order_costs(one.facts) and clear_loss(one.facts, one.among)


def board_unread(facts: BoardFacts) -> bool:
    """Return whether more than 5 % of the answers of one of the ranked models are missing."""
    return any(one.behind.unread for one in facts.models)


def board_untested(facts: BoardFacts) -> bool:
    """Return whether no ranked model has answers to two different prompts of a question."""
    return bool(facts.models) and not any(one.behind.any_tested for one in facts.models)


def board_order_costs(facts: BoardFacts) -> bool:
    """Return whether an order loss is above 0 by an interval that is widened for the number of models."""
    return bool(facts.costly)


def board_no_cost(facts: BoardFacts) -> bool:
    """Return whether order losses have intervals, and none is above 0 when widened for the number of models."""
    return bool(facts.known) and not facts.costly


def board_chance(facts: BoardFacts) -> bool:
    """Return whether no order loss is known, since answers are or may be sampled and no prompt was repeated."""
    return not facts.known and any(one.behind.chance_inside and one.counted for one in facts.models)


def board_unsure(facts: BoardFacts) -> bool:
    """Return whether a model has an order loss without an interval, and none has one with an interval."""
    losses = [one.numbers.get("order_loss") for one in facts.models if one.counted]
    return not facts.known and any(loss is not None and loss.high is None for loss in losses)


def board_guesses(facts: BoardFacts) -> bool:
    """Return whether the accuracy of one of the ranked models is not distinguished from guessing."""
    return bool(facts.guessing)


def pair_unread(pair: Pair) -> bool:
    """Return whether more than 5 % of the answers of one of the two evaluations are missing."""
    return bool(pair.unread())


def pair_unreadable(pair: Pair) -> bool:
    """Return whether more than half of the answers of one of the two evaluations are missing."""
    return pair.unreadable


def pair_equal(pair: Pair) -> bool:
    """Return whether the two values are equal."""
    return not pair.unreadable and pair.better is None


def pair_apart(pair: Pair) -> bool:
    """Return whether the 95 % interval of the paired difference excludes zero."""
    return not pair.unreadable and pair.better is not None and pair.apart


def pair_not_apart(pair: Pair) -> bool:
    """Return whether the 95 % interval of the paired difference includes zero or is missing."""
    return not pair.unreadable and pair.better is not None and not pair.apart


def several_unread(facts: Several) -> bool:
    """Return whether more than half of the answers of one of the models are missing."""
    return bool(facts.unread)


def several_few(facts: Several) -> bool:
    """Return whether differences have no interval."""
    return not facts.unread and not facts.stated


def several_apart(facts: Several) -> bool:
    """Return whether the best is distinguished from all others when all pairs are compared at once."""
    return not facts.unread and facts.stated and not facts.level


def several_level(facts: Several) -> bool:
    """Return whether the best is not distinguished from all others when all pairs are compared at once."""
    return not facts.unread and facts.stated and bool(facts.level)


def two_neighbours(facts: Neighbours) -> bool:
    """Return whether the board has two models."""
    return facts.pairs == 1


def more_neighbours(facts: Neighbours) -> bool:
    """Return whether the board has more than two models."""
    return facts.pairs > 1


def _position_is_told(position: Position) -> bool:
    facts = position.facts
    return facts.asked.lists_options and not facts.unreadable and not facts.many_tied and position.questions >= FEW


def position_preferred(facts: Position) -> bool:
    """Return whether a position is chosen more often than it is right, beyond ties and, in 99 % of cases, chance."""
    return _position_is_told(facts) and facts.excess > CLEARLY * facts.error


def no_position_preferred(facts: Position) -> bool:
    """Return whether no position is clearly preferred, in a test that finds 5 points in nine of ten evaluations."""
    return (
        _position_is_told(facts) and facts.excess <= CLEARLY * facts.error and (CLEARLY + POWER) * facts.error <= SEEN
    )


def cell_guesses(cell: Cell) -> bool:
    """Return whether the 95 % interval of accuracy lies within 2 points of the chance level or below."""
    return cell.accuracy.against_guessing(cell.chance) == "no better"


def cell_may_guess(cell: Cell) -> bool:
    """Return whether the 95 % interval of accuracy includes the chance level."""
    return cell.accuracy.against_guessing(cell.chance) == "not distinguished"


def cell_near_guesses(cell: Cell) -> bool:
    """Return whether accuracy is above the chance level, but by less than 10 points."""
    above = cell.accuracy.value - (cell.chance or 0)
    return cell.accuracy.against_guessing(cell.chance) == "better" and above < NEAR


def chart_unread(facts: Facts) -> bool:
    """Return whether more than half of the answers are missing."""
    return facts.unreadable


def chart_unlisted(facts: Facts) -> bool:
    """Return whether the protocol does not list the options."""
    return not facts.asked.lists_options and facts.asked.varied is None


def chart_other(facts: Facts) -> bool:
    """Return whether something other than the order was varied."""
    return facts.tested and facts.asked.varied not in (None, "order")


def chart_chance(facts: Facts) -> bool:
    """Return whether answers are sampled, or may be."""
    return facts.tested and facts.samples is not False
