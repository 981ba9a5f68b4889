"""Flips between two evaluations, attributed to the model, the reading or the right options, as planted."""

import random
from collections import Counter

import pytest

from registry.db import read_session
from registry.errors import UsageError
from registry.prompting.protocols.store import protocol_definition
from registry.prompting.reading import read
from registry.prompting.thoughts import Output
from registry.sealed.archiving import archive, restore
from registry.studies.causes import describe_causes
from registry.studies.comparing import compare_evaluations
from tests.outputs.conftest import Registry, registries, registry
from tests.proof.replays import lines_of, record, replayed, version
from tests.support.commands import shuffleboard

__all__ = ["registries", "registry"]

COUNT = 1000
IN_TEXT = protocol_definition("select-letter") | {"thoughts": "in-text"}
# The second answer is an option, here 0; the others are counted from it. Of each kind: the first answer, both keys.
KINDS = {
    "steady": (0, 0, 0),
    "always wrong": (0, 1, 1),
    "key": (0, 0, 1),
    "key to right": (0, 1, 0),
    "reading": (1, 0, 0),
    "reading to wrong": (1, 1, 1),
    "either alone": (1, 1, 2),
    "only together": (1, 2, 0),
}
BY_ANSWER = {"reading": 1, "reading to wrong": 1, "either alone": 0.5, "only together": 0.5}
BY_KEY = {"key": 1, "key to right": 1, "either alone": 0.5, "only together": 0.5}


class Planted:
    """Random kinds of flips, with the answers and right options that they cause. options: by question."""

    def __init__(self, count: int = COUNT) -> None:
        generator = random.Random(3)
        kinds = [generator.choice(list(KINDS)) for _ in range(count)]
        second = [number % 4 for number in range(count)]
        moved = [
            [(option + KINDS[kind][place]) % 4 for option, kind in zip(second, kinds, strict=True)]
            for place in range(3)
        ]
        self.first, *self.keys = moved
        self.second = second
        counts = Counter(kinds)
        self.flips = sum(counts[kind] for kind in {*BY_ANSWER, *BY_KEY})
        self.by_answer = sum(counts[kind] * share for kind, share in BY_ANSWER.items())
        self.by_key = sum(counts[kind] * share for kind, share in BY_KEY.items())

    def answers(self, options):
        """Return outputs that state these options, in the benchmark's own order."""
        return [
            {"question_id": f"q{number}", "variant": 0, "order": [0, 1, 2, 3], "position": option}
            for number, option in enumerate(options)
        ]

    def texts(self):
        """Return texts that rules read as the first answer with thoughts, and as the second without."""
        lines = []
        for line, first, second in zip(self.answers(self.first), self.first, self.second, strict=True):
            text = f"<think>The answer is {'ABCD'[first]}. Or not.</think>\n\\boxed{{{'ABCD'[second]}}}"
            assert read(IN_TEXT, Output(text), "ABCD", "abcd").position == first
            lines.append(line | {"text": text})
        return lines


def plant_in(registry: Registry, count: int = COUNT) -> Planted:
    """Import two versions of b with the planted right options."""
    planted = Planted(count)
    version(registry, "1", lines_of(planted.keys[0]))
    version(registry, "2", lines_of(planted.keys[1]))
    return planted


def causes(registry, first, second):
    """Return the causes between two evaluations."""
    with read_session(registry.engine) as session:
        return compare_evaluations(session, first, second)["causes"]


@pytest.mark.long_on("postgresql")
def test_flips_of_a_replay_are_split_exactly_as_planted(registry: Registry):
    planted = plant_in(registry)
    source = record(registry, planted.texts(), variants="original", protocol="select-letter")
    replay_id = replayed(registry, source, benchmark="b@2", protocol="final-answer")
    counts = causes(registry, source, replay_id)
    assert (counts["prompts"], counts["flips"]) == (COUNT, planted.flips)
    assert [counts[cause] for cause in ("model", "reading", "key")] == [0, planted.by_answer, planted.by_key]
    assert counts["shares"] == {
        "model": 0,
        "reading": planted.by_answer / planted.flips,
        "key": planted.by_key / planted.flips,
    }
    assert counts["remedy"] is counts["together"] is None
    back = causes(registry, replay_id, source)
    assert [back[cause] for cause in ("model", "reading", "key")] == [0, planted.by_answer, planted.by_key]
    # One change alone has all of its flips.
    by_key, by_reading = (
        replayed(registry, source, benchmark="b@2"),
        replayed(registry, source, protocol="final-answer"),
    )
    assert causes(registry, source, by_key)["shares"] == {"model": 0, "reading": 0, "key": 1}
    assert causes(registry, source, by_reading)["shares"] == {"model": 0, "reading": 1, "key": 0}
    # Two replays of one source have the same texts, too.
    assert causes(registry, by_key, by_reading)["model"] == 0


@pytest.mark.long_on("postgresql")
def test_flips_of_two_models_under_two_keys_are_split(registry: Registry):
    planted = plant_in(registry)
    registry.model("n")
    first = record(registry, planted.answers(planted.first), variants="original")
    second = record(registry, planted.answers(planted.second), at="2", variants="original", model="n")
    counts = causes(registry, first, second)
    assert [counts[cause] for cause in ("model", "reading", "key")] == [planted.by_answer, 0, planted.by_key]
    done = shuffleboard("statistics", "compare", first, second, database_url=registry.url)
    assert f"{planted.flips} of 1,000 answers are right in only one of the two: " in done.stdout
    assert " ".join(describe_causes(counts).split()) in " ".join(done.stdout.split())


@pytest.mark.one_engine
def test_model_and_reading_stay_undivided_with_a_remedy(registry: Registry):
    planted = plant_in(registry, 200)
    registry.model("n")
    texts = planted.texts()
    first = record(registry, texts, variants="original", protocol="select-letter")
    other = record(registry, texts, variants="original", protocol="select-letter", model="n")
    second = replayed(registry, other, benchmark="b@2", protocol="final-answer")
    counts = causes(registry, first, second)
    assert (counts["model"], counts["reading"], counts["key"]) == (None, None, planted.by_key)
    assert (counts["undivided"], counts["together"]) == (["model", "reading"], planted.by_answer)
    assert f"shuffleboard evaluations replay {first} --protocol final-answer" in counts["remedy"]
    # Follow the remedy.
    divided = causes(registry, replayed(registry, first, protocol="final-answer"), second)
    assert (divided["model"], divided["reading"], divided["remedy"]) == (0, 0, None)
    asked_otherwise = record(registry, texts, variants="original", protocol="first-letter")
    assert "asked differently (select-letter and first-letter)" in causes(registry, first, asked_otherwise)["remedy"]


@pytest.mark.one_engine
def test_causes_wait_until_archived_answers_are_restored(registry: Registry, tmp_path):
    planted = plant_in(registry, 50)
    source = record(registry, planted.answers(planted.first), variants="original")
    replay_id = replayed(registry, source, benchmark="b@2")
    archive(registry.engine, source, (tmp_path / "archives").as_uri())
    counts = causes(registry, source, replay_id)
    assert (counts["flips"], counts["key"]) == (None, None)
    assert f"shuffleboard evaluations restore {source}" in counts["remedy"]
    restore(registry.engine, source)
    assert causes(registry, source, replay_id)["flips"] > 0


@pytest.mark.one_engine
def test_versions_with_other_questions_are_not_compared(registry: Registry):
    version(registry, "1", lines_of([0, 1]))
    version(registry, "2", lines_of([0, 1], context="New."))
    planted = Planted(2)
    first, second = (record(registry, planted.answers([0, 1]), at=at, variants="original") for at in "12")
    with pytest.raises(UsageError, match="of versions that differ in keys"):
        causes(registry, first, second)
