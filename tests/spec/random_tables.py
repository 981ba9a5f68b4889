"""Random tables for Hypothesis, with everything that an import may contain and every difficult case.

Hypothesis draws the shape of a table; the cells are computed from a seed of the question, since drawing thousands of
numbers would take longer than the databases do.
"""

from random import Random
from typing import Final

from hypothesis import Phase, settings
from hypothesis import strategies as st

from tests.spec.tables import INSERTED, Case, Prompt

SPEC: Final = settings(
    derandomize=True, deadline=None, max_examples=10, database=None, phases=(Phase.explicit, Phase.generate)
)
"""Settings for the same tables on every run and on every machine.

Hypothesis does not shrink them, since with two databases for each attempt this would take minutes.
`Engines.disagreements` narrows a failure down to one question instead.
"""

SUBJECTS: Final = (None, "virology", "formal_logic", "college_physics")
KINDS: Final = ("stated", "probabilities", "logprobs", "choices", "mixed")
"""Kinds of numbers in a question's prompts; "choices": log-probabilities with the question and without it."""

WEIGHTS: Final = (0.0, 0.0, 0.25, 0.5, 0.5, 1.0, 3.0)
LOGPROBS: Final = (0.0, -0.25, -1.0, -1.0, -2.5, -40.0)
"""Few values, so that ties and zeros are frequent."""


def cases(*, complete: bool | None = None) -> st.SearchStrategy[list[Case]]:
    """Return tables of one to eight questions.

    complete: whether all variants of all questions are present.
    """
    question = st.builds(
        random_case,
        seed=st.integers(0, 2**32 - 1),
        n_options=st.integers(2, 13),
        n_prompts=st.integers(1, 9),
        kind=st.sampled_from(KINDS),
        altered=st.booleans(),
        lacking=st.just(0) if complete else st.sampled_from((0, 0, 0, 1, 2)),
    )
    return st.lists(question, min_size=1, max_size=8).map(_name)


def sample_tables(count: int, *, first_seed: int = 0) -> list[list[Case]]:
    """Return complete tables of one to eight questions, the same on every run, for tests without shrinking."""
    random = Random(first_seed)
    return [
        _name(
            [
                random_case(
                    seed=random.getrandbits(32),
                    n_options=random.randint(2, 13),
                    n_prompts=random.randint(1, 9),
                    kind=random.choice(KINDS),
                    altered=random.random() < 0.5,
                    lacking=0,
                )
                for _ in range(random.randint(1, 8))
            ]
        )
        for _ in range(count)
    ]


def _name(drawn: list[Case]) -> list[Case]:
    return [_rename(case, f"q{number}") for number, case in enumerate(drawn)]


def _rename(case: Case, name: str) -> Case:
    return Case(**{**vars(case), "question": name})


def random_case(*, seed: int, n_options: int, n_prompts: int, kind: str, altered: bool, lacking: int) -> Case:
    """Return the question that a seed determines.

    lacking: how many of its expected variants are missing.
    """
    random = Random(seed)
    answer = random.randrange(n_options)
    ordinals = list(range(n_prompts)) if random.random() < 0.7 else sorted(random.sample(range(40), n_prompts))
    fickle = random.random()  # from a model that always gives the same answer to a model that guesses
    prompts = [
        _random_prompt(random, ordinal, n_options, answer, kind, altered=altered, fickle=fickle) for ordinal in ordinals
    ]
    kept = prompts if lacking < len(prompts) else []
    for _ in range(lacking if kept else 0):
        kept.pop(random.randrange(len(kept)))
    return Case(
        question="",
        texts=tuple(random.choice(("no", "yes", "perhaps", "é", "日本")) for _ in range(n_options)),
        answer=answer,
        expected=n_prompts,
        prompts=tuple(kept if lacking else prompts),
        subject=random.choice(SUBJECTS),
        refers_to_options=random.random() < 0.2,
        sorted_numeric=random.random() < 0.2,
    )


def _random_prompt(
    random: Random, ordinal: int, n_options: int, answer: int, kind: str, *, altered: bool, fickle: float
) -> Prompt:
    order = list(range(n_options))
    if random.random() < (0.8 if ordinal else 0.3):
        random.shuffle(order)
    if altered and random.random() < 0.4:
        distractor = random.choice([option for option in order if option != answer])
        order = random.choice(
            (
                [random.choice(list(INSERTED)) if option == distractor else option for option in order],
                random.sample([answer, distractor], 2),
                random.sample([answer, distractor, -1], 3),
                [option for option in order if option != answer],  # an import may leave the answer out
            )
        )
    kind = random.choice(KINDS) if kind == "mixed" else kind
    likely = answer if fickle < 0.5 and answer in order else order[0]
    chosen = random.choice([None, *order]) if random.random() < fickle else likely

    def numbers(few: tuple[float, ...], low: float, high: float) -> tuple[float, ...]:
        if random.random() < 0.05 and high > 0:
            return (0.0,) * len(order)
        return tuple(random.choice(few) if random.random() < 0.5 else random.uniform(low, high) for _ in order)

    with_logprobs = kind in ("logprobs", "choices")
    return Prompt(
        variant=ordinal,
        order=tuple(order),
        answered=kind == "stated" or random.random() < 0.2,
        chosen=chosen,
        weights=numbers(WEIGHTS, 0, 1) if kind == "probabilities" or random.random() < 0.1 else None,
        logprobs=numbers(LOGPROBS, -8, 0) if with_logprobs else None,
        without=numbers(LOGPROBS, -8, 0) if kind == "choices" else None,
        question_shown=not altered or random.random() > 0.15,
        labels="reversed" if random.random() < 0.05 else None,
    )
