"""Thousands of noisy prompts, checked by rule: `python -m tests.bench.noisy_prompts --prompts 10000`.

Questions of the samples that ship, under every type of noise, applied to question and options. Counts right options that
were altered, options that became equal, and prompts that a second build makes otherwise; and compares the share of the
places that were altered with the stated rate.
"""

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files

from registry.prompting.noise import TYPES
from registry.prompting.prompts import QuestionText, build_prompt, shown_question
from registry.prompting.protocols import protocol_definition
from registry.prompting.variants import QuestionShape, VariantShown, parse_variants

RATES = (5, 10, 25, 60)


def questions() -> Iterator[QuestionText]:
    """The questions of the samples."""
    for name in ("mmlu.jsonl", "csqa.jsonl"):
        text = files("registry.benchmarks").joinpath("samples").joinpath(name).read_text(encoding="utf-8")
        for line in map(json.loads, text.splitlines()):
            yield QuestionText(
                line["id"], line.get("subject"), None, line["question"], tuple(line["options"]), line["answer"]
            )


def noisy(rate: int) -> Iterator[tuple[QuestionText, VariantShown]]:
    """Each question with each of its noisy variants."""
    definition = parse_variants(f"noise:to=both,rate={rate},m=2")
    for question in questions():
        shape = QuestionShape(question.external_id, len(question.options), question.answer)
        for variant in definition.variants(shape)[1:]:
            yield question, variant


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints what was counted, and the share of altered places by type and rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=10_000)
    given = parser.parse_args(arguments)
    protocol = protocol_definition("symbols")
    wrong: Counter[str] = Counter(dict.fromkeys(("answer altered", "options merged", "built otherwise"), 0))
    places: Counter[tuple[str, int]] = Counter()
    taken: Counter[tuple[str, int]] = Counter()
    built = 0
    for rate in RATES:
        for question, variant in itertools.islice(noisy(rate), given.prompts // len(RATES)):
            shown = shown_question(question, variant)
            noise = variant.noise
            assert noise is not None
            built += 1
            wrong["answer altered"] += shown.options[question.answer] != question.options[question.answer]
            wrong["options merged"] += len(set(shown.options)) < len(set(question.options))
            prompts = {build_prompt(protocol, question, variant).text for _ in range(2)}
            wrong["built otherwise"] += len(prompts) > 1
            places[noise.what, rate] += len(TYPES[noise.what].places(question.text))
            taken[noise.what, rate] += len(noise.taken(question.text, "question"))
    print(f"{built:,} prompts: {', '.join(f'{count} {what}' for what, count in wrong.items())}")
    for key in sorted(places):
        print(f"{key[0]:12} rate {key[1]:3} %  {100 * taken[key] / places[key]:6.2f} % of {places[key]:,} places")


if __name__ == "__main__":
    main()
