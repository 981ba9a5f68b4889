"""Every sentence that is said of an evaluation made at random is true of its answers."""

import re
from dataclasses import replace
from fractions import Fraction
from math import comb
from pathlib import Path
from statistics import fmean

import pytest

import web
from registry.verdicts import boards, cases, comparisons, models, sections
from registry.verdicts.cases import Said, verdict
from registry.verdicts.facts import Facts
from registry.verdicts.wording import points, share
from tests.verdicts.generated import Raw, facts_of_raw, made, pairs

QUICK = 60
TOGETHER = 5
"""Of so many evaluations one is looked at on a board, and in a list, of up to so many."""
MANY = 5_000
AT_ONCE = 250
BLAME = re.compile(r"lost by|changes with|does not hold|costs it|loses|of its accuracy|differ more often")
"""What attributes a loss, or a change, to what was varied."""


@pytest.mark.parametrize(
    "first",
    [pytest.param(start, marks=[pytest.mark.long] * (start >= 0)) for start in (-QUICK, *range(0, MANY, AT_ONCE))],
)
def test_each_sentence_is_true_of_the_answers_that_it_is_about(first: int):
    for seed in range(first, 0) if first < 0 else range(first, first + AT_ONCE):
        raw = made(seed)
        facts = facts_of_raw(raw)
        said = verdict(facts)
        context = f"seed {seed}: {[str(item) for item in said.sentences]}"
        _check_first_things_first(raw, facts, said, context)
        for item in said.sentences:
            _check(raw, facts, item, context)
        _check_lists(raw, facts, context)
        _check_sections(raw, facts, context)
        if seed % TOGETHER == 0:
            alike = [made(seed * TOGETHER + number, alike=seed) for number in range(1 + seed // TOGETHER % TOGETHER)]
            _check_board(alike, f"board {seed}")
            _check_list([raw, *(made(MANY + seed + number) for number in range(1, TOGETHER))], f"list {seed}")


def _missing(raw: Raw) -> Fraction:
    asked = [option for answers in raw.asked for _, option in answers]
    return Fraction(sum(option is None for option in asked), max(1, len(asked)))


def _tested(raw: Raw) -> bool:
    most = max(map(raw.prompts, range(len(raw.asked))))
    return bool(raw.varied or raw.listed) and most > 1


def _check_first_things_first(raw: Raw, facts: Facts, said: cases.Verdict, context: str) -> None:
    missing = _missing(raw)
    assert (said.read is not None) == (missing > Fraction(1, 20)), context
    assert (said.conclusion is None) == (missing > Fraction(1, 2)), context
    text = " ".join(str(item) for item in said.sentences)
    if missing > Fraction(1, 2):
        assert not said.found, context
        assert "no rank" in text, context
    if BLAME.search(text):
        assert _tested(raw), context
        differ = any(any(pairs(raw, index)[0]) for index in range(len(raw.asked)))
        cost = facts.number("order_loss")
        known = raw.samples is False and not differ
        beyond = cost is not None and cost.low is not None and cost.low > 0
        net = facts.noise is not None and facts.noise.interval is not None and facts.noise.interval[0] > 0
        assert known or beyond or net, context
    if raw.varied != "order":
        assert not re.search(r"(the|every|one of \d+|in another) order", text.replace("other orders", "")), context


def _papers(raw: Raw) -> list[list[bool]]:
    return [raw.right(index) for index in range(len(raw.asked)) if raw.prompts(index) > 1]


def _accuracy(raw: Raw) -> float:
    return raw.mean([raw.right(index)[0] if raw.asked[index] else None for index in range(len(raw.asked))]) or 0.0


def _worst(raw: Raw) -> float:
    tested = [raw.prompts(index) > 1 for index in range(len(raw.asked))]
    return raw.mean([all(raw.right(index)) if known else None for index, known in enumerate(tested)]) or 0.0


def _tail(hits: int, n: int, share_of: Fraction) -> Fraction:
    """The probability of at most so many of n."""
    return sum((comb(n, k) * share_of**k * (1 - share_of) ** (n - k) for k in range(hits + 1)), Fraction(0))


def _asked_again(raw: Raw, index: int) -> bool:
    """Whether a question was asked in two prompts, and in one of them twice."""
    return 1 < raw.prompts(index) < len(raw.asked[index])


def _order_loss(raw: Raw) -> float:
    """By taking every pair of answers."""
    losses: list[float | None] = []
    for index in range(len(raw.asked)):
        by_prompt: dict[int, list[bool]] = {}
        for prompt, option in raw.asked[index]:
            by_prompt.setdefault(prompt, []).append(option == 0)
        if len(by_prompt) < 2 or max(map(len, by_prompt.values())) < 2:
            losses.append(None)
            continue
        same = [
            fmean(one and two for place, one in enumerate(right) for two in right[place + 1 :])
            for right in by_prompt.values()
            if len(right) > 1
        ]
        lists = list(by_prompt.values())
        across = [
            fmean(a and b for a in one for b in two) for place, one in enumerate(lists) for two in lists[place + 1 :]
        ]
        losses.append(fmean(same) - fmean(across))
    return raw.mean(losses) or 0.0


def _check(raw: Raw, facts: Facts, said: Said, context: str) -> None:
    """Whether a sentence is true of the answers. Every case has a line here: an unknown one fails."""
    text, missing = said.text, _missing(raw)
    if said.case in ("mostly-unread", "partly-unread"):
        assert text.startswith(share(float(missing))), context
        for number, state in re.findall(r"([\d,]+) (unread|unfinished|empty|refused)", text):
            assert raw.states[state] == int(number.replace(",", "")), context
    elif said.case == "guesses":
        low = facts.numbers["accuracy"].low
        n, hits = len(raw.asked), round(_accuracy(raw) * len(raw.asked))
        exact = 1 - (_tail(hits - 1, n, Fraction(1, raw.options)) if hits else Fraction(0))
        assert low <= 1 / raw.options if low is not None else float(exact) >= 0.025, context
        assert share(1 / raw.options) in text, context
    elif said.case in ("untested", "untested-guesser"):
        assert not _tested(raw), context
        if number := re.match(r"(\d+) repeats", text):
            assert raw.copies * max(map(len, raw.asked)) == int(number[1]), context
    elif said.case in ("order-costs", "no-cost-seen", "cost-unsure"):
        assert raw.repeated, context
        low = facts.numbers["order_loss"].low
        assert {"order-costs": low is not None and low > 0, "cost-unsure": low is None}.get(
            said.case, low is not None and low <= 0
        ), context
        if said.case != "cost-unsure":
            assert points(_order_loss(raw)) in text, context
    elif said.case in ("changes-beyond-noise", "no-change-seen"):
        shares = [tuple(map(list, pairs(raw, index))) for index in range(len(raw.asked))]
        effect = fmean(fmean(two) - fmean(one) for one, two in shares if one and two)
        assert points(effect) in text, context
    elif said.case == "same-answers":
        for index in range(len(raw.asked)):
            options = {option for _, option in raw.papers(index)}
            assert len(options) == 1, context
            assert None not in options, context
    elif said.case in ("chance-inside", "drops-with-chance"):
        differ = any(any(pairs(raw, index)[0]) for index in range(len(raw.asked)))
        assert raw.samples is not False or differ, context
        assert "order_loss" not in facts.numbers, context
        if number := re.search(r"the other (\S+) point", text):
            assert number[1] == points(_accuracy(raw) - _worst(raw)).split()[0], context
    elif said.case == "all-kept":
        assert all(all(right) for right in _papers(raw) if right[0]), context
        assert _accuracy(raw) > 0, context
        assert raw.samples is False, context
    elif said.case == "mostly-lost":
        right, kept = (round(value * len(raw.asked)) for value in (_accuracy(raw), _worst(raw)))
        kept = min(right, kept + int(missing * sum(map(len, raw.asked))))
        assert _tail(kept, right, Fraction(1, 2)) <= Fraction(1, 40), context
    elif said.case == "share-kept":
        right, kept = (round(value * len(raw.asked)) for value in (_accuracy(raw), _worst(raw)))
        assert text.startswith(share(kept / right)), context
    elif said.case == "no-original":
        assert raw.lacks_original, context
        assert share(_worst(raw)) in text, context
        assert "in every order" in text, context
    elif said.case == "no-worst":
        assert facts.number("worst_accuracy") is None, context
    elif said.case == "worst-bracket":
        low, high = (float(number) for number in re.findall(r"([\d.]+)\u202f%", text))
        counts = [raw.counts(index) for index in range(len(raw.asked)) if raw.prompts(index) > 1]
        assert all(len({times for _, times in found}) == 1 for found in counts), context
        lows = [min(r / n for r, n in raw.counts(i)) if raw.prompts(i) > 1 else None for i in range(len(raw.asked))]
        assert low == pytest.approx(100 * (raw.mean(lows) or 0.0), abs=0.06), context
        assert low <= high + 0.05, context
    elif said.case == "right":
        shares = re.findall(r"(?:on |and on )([\d.]+\u202f%)", text)
        if raw.lacks_original:
            shares.insert(0, share(_accuracy(raw)))
        assert shares[0] == share(_accuracy(raw)), context
        if len(shares) > 1:
            assert shares[1] == share(_worst(raw)), context
            assert (" of its own options" in text) == (raw.kind == "divergent"), context
        for count in re.findall(r"every one of (\d+) (?!to)", text):
            assert {raw.prompts(index) for index in range(len(raw.asked))} == {int(count)}, context
    elif said.case == "drops":
        assert raw.samples is False, context
        assert points(_accuracy(raw) - _worst(raw)) in text, context
        assert ("missing" in text) == (missing > 0), context
    elif said.case in ("flips", "flips-with-chance"):
        flips: list[float | None] = []
        for index in range(len(raw.asked)):
            options = [option for _, option in raw.papers(index)]
            flips.append(float(None in options or len(set(options)) > 1) if raw.prompts(index) > 1 else None)
        assert share(raw.mean(flips) or 0.0) in text, context
        differ = any(any(pairs(raw, index)[0]) for index in range(len(raw.asked)))
        assert (said.case == "flips") == (raw.samples is False and not differ), context
    elif said.case == "right-twice":
        assert raw.repeated, context
        both = [float(number) for number in re.findall(r"([\d.]+)\u202f%", text)]
        assert both[0] - both[1] == pytest.approx(100 * _order_loss(raw), abs=0.11), context
        again = sum(_asked_again(raw, index) for index in range(len(raw.asked)))
        assert (f"On the {again} " in text) == (again < len(raw.asked)), context
    elif said.case == "repeats-differ":
        shares = [fmean(same) for index in range(len(raw.asked)) if (same := pairs(raw, index)[0])]
        assert share(fmean(shares)) in text, context
    elif said.case == "ask-again":
        assert said.command, context
        assert raw.samples is True, context
        assert "order_loss" not in facts.numbers, context
    else:
        raise AssertionError(f"no check of {said.case}: {context}")


def _check_lists(raw: Raw, facts: Facts, context: str) -> None:
    """What is said of its model, and above a list that it is on."""
    of_model = models.of_model([facts])
    told = models.of_listed([facts])
    assert len(told) <= 1, context
    known = raw.samples is False and not any(any(pairs(raw, index)[0]) for index in range(len(raw.asked)))
    for said in (of_model, *(sentence for _, sentence in told)):
        if BLAME.search(said.text) and said.case != "model-no-cost-seen":
            cost = facts.number("order_loss")
            net = facts.noise is not None and facts.noise.interval is not None and facts.noise.interval[0] > 0
            assert known or net or (cost is not None and cost.low is not None and cost.low > 0), f"{said} {context}"
            assert _missing(raw) <= Fraction(1, 2), context
            assert _tested(raw), context
    if told:
        assert not facts.guesses, context
        for number in re.findall(r"answers ([\d.]+\u202f%)", told[0][1].text):
            assert number == share(_accuracy(raw)), context
    if _missing(raw) > Fraction(1, 2):
        assert of_model.case == "all-unread", context
    if of_model.case == "model-same-answers":
        assert all(len({option for _, option in raw.papers(index)}) == 1 for index in range(len(raw.asked))), context
    if of_model.case == "model-no-numbers":
        assert facts.lost is None, context


def _clear(raw: Raw, facts: Facts) -> bool:
    """Whether what a model loses can be owed to what was varied: nothing was sampled, or repeats say so."""
    cost, noise = facts.number("order_loss"), facts.noise
    known = raw.samples is False and not any(any(pairs(raw, index)[0]) for index in range(len(raw.asked)))
    net = noise is not None and noise.interval is not None and noise.interval[0] > 0
    return known or net or (cost is not None and cost.low is not None and cost.low > 0)


def _check_list(raws: list[Raw], context: str) -> None:
    """What is said of a model from several evaluations, and above a list of them."""
    found = [replace(facts_of_raw(raw), model=f"m{place}") for place, raw in enumerate(raws)]
    for facts, said in models.of_listed(found):
        raw = raws[found.index(facts)]
        assert not facts.guesses, context
        assert _clear(raw, facts), f"{said} {context}"
        assert _tested(raw), f"{said} {context}"
        assert _missing(raw) <= Fraction(1, 2), f"{said} {context}"
        assert facts.model in said.text, f"{said} {context}"
    said = models.of_model(found)
    able = [(raw, facts) for raw, facts in zip(raws, found, strict=True) if _missing(raw) <= Fraction(1, 2)]
    tested = [(raw, facts) for raw, facts in able if _tested(raw)]
    if said.case == "all-unread":
        assert not able, f"{said} {context}"
    if said.case == "model-guesses":
        assert all(facts.guesses for _, facts in able), f"{said} {context}"
    if said.case == "model-untested":
        assert not tested, f"{said} {context}"
    if said.case in ("model-one-share", "model-order-costs", "model-beyond-noise"):
        assert any(_clear(raw, facts) for raw, facts in tested), f"{said} {context}"
    if said.case == "model-order-costs":
        assert any(points(_order_loss(raw)) in said.text for raw, _ in tested if raw.repeated), f"{said} {context}"
    if said.case == "model-one-share":
        accuracy, worst = re.findall(r"[\d.]+\u202f%", said.text)[-2:] if "falls" in said.text else (None, None)
        assert accuracy is None or any(
            (accuracy, worst) == (share(_accuracy(raw)), share(_worst(raw))) for raw, _ in tested
        ), f"{said} {context}"


def _check_board(raws: list[Raw], context: str) -> None:
    """What is said above a board of models that were asked in one way."""
    found = [replace(facts_of_raw(raw), model=f"m{place}") for place, raw in enumerate(raws)]
    ranked = {facts.model: (raw, facts) for raw, facts in zip(raws, found, strict=True) if not facts.unreadable}
    top = boards.top_of(
        [
            boards.OnBoard(
                facts.model,
                *(facts.number(name) for name in ("accuracy", "worst_accuracy", "order_loss")),
                facts.chance,
                [facts],
                *(facts.number(name) for name in ("right_twice_same_order", "right_twice_across_orders")),
            )
            for _, facts in ranked.values()
        ]
    )
    clear = {name for name, (raw, facts) in ranked.items() if _clear(raw, facts) and _tested(raw)}
    said = top.sentence
    context = f"{context}: {said}, {top.facts}"
    if said is not None and said.case == "board-untested":
        assert not any(_tested(raw) for raw, _ in ranked.values()), context
    if said is not None and said.case in ("board-order-costs", "board-one-lost", "board-lost"):
        assert raws[0].varied == "order", context
        number = re.search(r"(\d+)(?: of \d+)? model", said.text)
        assert len(clear) >= (int(number[1]) if number else 1), context
        for name in re.findall(r"m\d", said.text):
            assert name in clear, context
    if said is not None and said.case == "board-order-costs":
        assert any(points(_order_loss(ranked[name][0])) in said.text for name in clear), context
    if said is not None and said.case in ("board-one-lost", "board-lost"):
        losses = [max(0.0, _accuracy(raw) - _worst(raw)) for raw, _ in ranked.values()]
        most = max(float(number) for number in re.findall(r"[\d.]+(?= points?| to)", said.text) if "." in number)
        assert most <= 100 * max(losses) + 0.051, context
    if said is not None and said.case == "board-chance-inside":
        assert any(raw.samples is not False or facts.samples for raw, facts in ranked.values()), context
    for title, fact in top.facts:
        names = [name for name in re.findall(r"m\d", fact.text.split(";")[0]) if name in ranked]
        assert names, context
        if title in ("Keeps most", "Loses most", "The order costs most"):
            assert set(names) <= clear, context
        if title in ("Loses first place", "Stays first") and not raws[0].repeated:
            best = max(_accuracy(raw) for raw, _ in ranked.values())
            assert all(_accuracy(ranked[name][0]) == pytest.approx(best) for name in names), context
            kept = max(_worst(raw) for raw, _ in ranked.values())
            others = names if title == "Stays first" else re.findall(r"m\d", fact.text.split("; in several")[1])
            assert all(_worst(ranked[name][0]) == pytest.approx(kept) for name in others), context


def _check_sections(raw: Raw, facts: Facts, context: str) -> None:
    """What is said above the charts of positions and of questions by orders, and who has a point."""
    answered = sum(map(len, raw.asked))
    if not answered:
        return
    most = max(range(raw.options), key=lambda place: raw.chosen[place] - raw.right_at[place])
    position = sections.Position(most, raw.chosen[most], raw.right_at[most], answered, len(raw.asked), facts)
    said = sections.of_position(position)
    if said.case in ("position-preferred", "position-none"):
        assert raw.listed, context
        assert [share(raw.chosen[most] / answered), share(raw.right_at[most] / answered)] == re.findall(
            r"[\d.]+\u202f%", said.text
        ), context
    if said.case == "position-preferred":
        assert raw.chosen[most] > raw.right_at[most], context
    point = sections.no_point(facts)
    if point is None and _tested(raw):
        assert raw.listed, context
        assert raw.varied == "order", context
        assert facts.samples is False, context
        assert _missing(raw) <= Fraction(1, 2), context


def test_sentences_about_several_models_are_true_of_them():
    for seed in range(40):
        one, other = (facts_of_raw(made(number)) for number in (seed, seed + 1_000))
        if not one.number("accuracy") or not other.number("accuracy"):
            continue
        a, b = (facts.numbers["accuracy"].value for facts in (one, other))
        difference, reach = abs(a - b), 0.05
        pair = comparisons.Pair(
            names=("one", "other"),
            label="accuracy",
            values=(share(a), share(b)),
            better=None if a == b else int(a < b),
            difference=difference,
            low=difference - reach,
            high=difference + reach,
            n=100,
            only=(3, 4),
            right="right",
            facts=(one, other),
        )
        found = comparisons.of_pair(pair)
        missing = [facts.reading.share for facts in (one, other)]
        assert (found.conclusion.case == "pair-mostly-unread") == (max(missing) > 0.5)
        assert (found.read is not None) == (max(missing) > 0.05)
        if found.conclusion.case == "pair-apart":
            assert difference > reach
            assert found.conclusion.text.startswith("one is" if a > b else "other is")
            assert points(difference) in found.conclusion.text
        if found.conclusion.case == "pair-not-apart":
            assert difference <= reach


def test_every_case_has_a_name_of_its_own_and_says_when_it_holds():
    tables = [
        table
        for module in (boards, cases, models, comparisons, sections)
        for table in vars(module).values()
        if isinstance(table, tuple) and table and all(isinstance(case, cases.Case) for case in table)
    ]
    named = [case.name for table in {id(table): table for table in tables}.values() for case in table]
    assert len(named) == len(set(named))
    assert len(named) > 50
    assert all(case.when for table in tables for case in table)


SENTENCES = re.compile(
    r"does not hold in|holds in every|no better than guessing|prefers [A-Z]|is better by|costs? it|"
    r"is known about other orders|can(not)? be distinguished"
)


def test_templates_have_no_verdicts_of_their_own():
    folder = Path(web.__file__).parent / "templates"
    assert not [
        f"{path.name}: {found[0]}"
        for path in sorted(folder.glob("*.html"))
        if (found := SENTENCES.search(path.read_text(encoding="utf-8")))
    ]
