"""Words that fill in the braces of sentence templates, with numbers as `wording` writes them."""

from collections.abc import Mapping, Sequence

from registry.names import plural
from registry.prompting.labels import letter
from registry.verdicts.conditions import order_is_told
from registry.verdicts.facts import NO_VERDICT, Asked, Facts, Number, names
from registry.verdicts.subjects import (
    FEW,
    BoardFacts,
    Cell,
    Concluded,
    Listed,
    ModelFacts,
    Neighbours,
    Pair,
    Position,
    Several,
)
from registry.verdicts.wording import (
    count,
    describe_right,
    every_level,
    format_interval,
    missing,
    name_varied,
    one_level,
    points,
    several_levels,
    share,
    value_text,
)

Words = dict[str, str]


def _numbers(numbers: Mapping[str, Number]) -> Words:
    words = {}
    for metric, number in numbers.items():
        words[metric] = value_text(metric, number.value)
        words[f"{metric}_between"] = format_interval(metric, number)
        words[f"{metric}_most"] = "" if number.high is None else value_text(metric, number.high)
    return words


def _describe_loss(numbers: Mapping[str, Number], asked: Asked) -> str:
    """Return the words around the order loss; empty if it is undefined."""
    same, across, cost = map(numbers.get, ("right_twice_same_order", "right_twice_across_orders", "order_loss"))
    return "" if across is None or cost is None else describe_right(same, across, cost, asked)


def evaluation_words(facts: Facts) -> Words:
    """Return the words of sentences about an evaluation."""
    accuracy = facts.number("accuracy") or facts.number("average_accuracy")
    noise = facts.noise
    twice = _describe_loss(facts.numbers, facts.asked)
    return _numbers(facts.numbers) | {
        "twice": twice[:1].upper() + twice[1:],
        "model": facts.model,
        "benchmark": facts.benchmark,
        "chance": share(facts.chance or 0),
        "unread": share(facts.reading.share),
        "missing": missing(facts.reading),
        "of_those_read": _describe_answered(facts),
        "tied": share(facts.reading.share_tied),
        "right": "" if accuracy is None else share(accuracy.value) + format_interval("accuracy", accuracy),
        "as_printed": " as printed" if facts.tested else "",
        "level": one_level(facts.asked),
        "every_level": every_level(facts.asked),
        "varied": name_varied(facts.asked),
        "asked": _describe_prompting(facts),
        "unsure": "ties or missing answers leave too much open" if facts.spoilt else "too few questions differ",
        "sampled": "its answers are sampled" if facts.samples else "nothing says whether its answers were sampled",
        "elsewhere": " (in another evaluation)" if noise is not None and noise.elsewhere else "",
        "repeats_differ": share(noise.repeats if noise else 0),
        "net_of_noise": _describe_net(facts),
        "unexpected": _describe_unexpected(facts),
    }


def _describe_answered(facts: Facts) -> str:
    """Return the accuracy of the answers that could be read, as part of a sentence; empty if unknown."""
    answered = facts.number("accuracy_of_answered")
    return "" if answered is None else f"; of those that could be read, {share(answered.value)} are right"


def _describe_net(facts: Facts) -> str:
    """Return how much more often answers differ between orders than between repeats; empty without an interval."""
    noise = facts.noise
    if noise is None or noise.effect is None or noise.interval is None or not order_is_told(facts):
        return ""
    more = points(noise.effect) + " more" + format_interval("order_loss", Number(0, 0, *noise.interval))
    orders = f"{several_levels(facts.asked)} in {share(noise.orders or 0)}"
    return f", in two {orders}: {more}, over {plural(noise.n, 'question')}"


def _describe_unexpected(facts: Facts) -> str:
    """Return that repeats differ without sampling, for which the order loss does not account; empty if they do not."""
    noise = facts.noise
    if noise is None or noise.elsewhere or not noise.repeats or facts.asked.samples is not False:
        return ""
    return f", although its protocol does not sample: what {name_varied(facts.asked)} seems to cost may be chance"


def _describe_prompting(facts: Facts) -> str:
    if facts.asked.most == 0:
        return "Asked without the question"
    if not facts.asked.lists_options:
        return "Its protocol does not list the options, so no order was shown"
    if facts.asked.prompts > 1:
        return f"{facts.asked.prompts} repeats of one prompt, in one order"
    return "Asked in one order"


def _join_benchmarks(concluded: Sequence[Concluded]) -> str:
    return names([one.facts.benchmark for one in concluded]) if concluded else ""


def model_words(facts: ModelFacts) -> Words:
    """Return the words of sentences about a model."""
    return {
        "unread_on": _join_benchmarks(facts.evaluations),
        "readable_on": _join_benchmarks(facts.readable),
        "above_chance_on": _join_benchmarks(facts.above_chance),
        "benchmark": "" if facts.told is None else facts.told.facts.benchmark,
        "conclusion": "" if facts.told is None else facts.told.conclusion or "",
    }


def listed_words(one: Listed) -> Words:
    """Return the words of sentences about an evaluation of a list."""
    return {
        "model": one.facts.model,
        "benchmark": one.facts.benchmark,
        "variants": f" ({one.facts.variants})" if one.facts.variants else "",
        "conclusion": one.conclusion or "",
    }


def board_words(facts: BoardFacts) -> Words:
    """Return the words of sentences about a board."""
    models = len(facts.models)
    most = next(iter(facts.costly), None)
    numbers = {} if most is None else _numbers(most.numbers)
    # Only a board with several models has to say which one the numbers are of.
    which = "" if most is None or models == 1 else f". {most.model}{' loses most' if len(facts.costly) > 1 else ''}"
    return {
        "unread": _count_models(sum(one.behind.unread for one in facts.models), models),
        "guessing": _count_models(len(facts.guessing), models),
        "known": _count_models(len(facts.known), models),
        "costly": most.model if most is not None and models == 1 else _count_models(len(facts.costly), models),
        "which": which,
        "twice": "" if most is None else _describe_loss(most.numbers, most.behind.parts[0].asked),
        "cost": numbers.get("order_loss", ""),
        "cost_between": numbers.get("order_loss_between", ""),
    }


def _count_models(some: int, models: int) -> str:
    return plural(models, "model") if some == models else f"{count(some)} of {plural(models, 'model')}"


def pair_words(pair: Pair) -> Words:
    """Return the words of sentences about two evaluations."""
    shares = {name: share(facts.reading.share) for name, facts in zip(pair.names, pair.facts, strict=True)}
    return {
        "unread": " and ".join(f"{shares[name]} of the answers of {name}" for name in pair.unread()),
        "unreadable": names(pair.unread(NO_VERDICT)) if pair.unreadable else "",
        "label": pair.label,
        "value": pair.values[pair.better or 0],
        "other": pair.values[1 - (pair.better or 0)],
        "better": pair.names[pair.better or 0],
        "worse": pair.names[1 - (pair.better or 0)],
        "difference": points(pair.difference.value),
        "difference_between": format_interval("order_loss", pair.difference)
        or f"; {_few(pair.difference.n)} for an interval",
    }


def _few(n: int) -> str:
    return f"{plural(n, 'question')} are too few" if n < FEW else "too few questions differ"


def several_words(facts: Several) -> Words:
    """Return the words of sentences about several models."""
    return {
        "unread": names(facts.unread) if facts.unread else "",
        "best": facts.best,
        "label": facts.label,
        "value": facts.value,
        "few": _few(facts.n),
        "others": "the other one" if facts.others == 1 else f"all {facts.others} others",
        "level": names(facts.level, most=5) if facts.level else "",
    }


def neighbours_words(facts: Neighbours) -> Words:
    """Return the words of sentences about neighbours on a board."""
    return {
        "can": "can" if facts.apart else "cannot",
        "apart": count(facts.apart),
        "pairs": count(facts.pairs),
        "all_apart": count(facts.all_apart),
        "all_pairs": count(facts.all_pairs),
    }


def cell_words(facts: Cell) -> Words:
    """Return the words of notes below an accuracy."""
    return {"above": points(facts.accuracy.value - (facts.chance or 0))}


def position_words(facts: Position) -> Words:
    """Return the words of sentences about positions."""
    return {
        "letter": letter(facts.position),
        "chosen": share(facts.chosen / facts.prompts),
        "right": share(facts.right / facts.prompts),
    }
