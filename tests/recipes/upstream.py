"""Questions in the form of each dataset on the hub: real questions of the samples, otherwise made up."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from registry.benchmarks.contract import QuestionRecord, read_benchmark
from registry.benchmarks.recipes import Recipe
from tests.recipes.hub import arrow, json_lines, parquet
from tests.support.population import CSQA, MMLU

Row = dict[str, Any]
LETTERS = "ABCDEFGHIJ"


def make_values(count: int, options: int) -> list[QuestionRecord]:
    """Return questions in two subjects, with the right option at varying positions."""
    return [
        QuestionRecord(
            f"q{number}",
            ("law", "physics")[number * 2 // count],
            f"Passage {number}.",
            f"Which of these is number {number}?",
            tuple(f"{number}.{index}" for index in range(options)),
            number % options,
        )
        for number in range(count)
    ]


def _letter(keys: str) -> Callable[[QuestionRecord], Row]:
    return lambda asked: dict(zip(keys.split(), asked.options, strict=True))


def _choices(asked: QuestionRecord) -> Row:
    return {"text": list(asked.options), "label": list(LETTERS[: len(asked.options)])}


def _first(asked: QuestionRecord) -> tuple[str, ...]:
    """Return the right option, then the others, as in a dataset that does not shuffle them."""
    return (asked.options[asked.answer], *(text for place, text in enumerate(asked.options) if place != asked.answer))


ROWS: dict[str, Callable[[QuestionRecord], Row]] = {
    "cais/mmlu": lambda asked: {
        "question": asked.text,
        "subject": asked.subject,
        "choices": list(asked.options),
        "answer": asked.answer,
    },
    "TIGER-Lab/MMLU-Pro": lambda asked: {
        "question_id": int(asked.external_id[1:]),
        "question": asked.text,
        "options": list(asked.options),
        "answer": LETTERS[asked.answer],
        "answer_index": asked.answer,
        "cot_content": "",
        "category": asked.subject,
        "src": "made",
    },
    "edinburgh-dawg/mmlu-redux-2.0": lambda asked: {
        "question": asked.text,
        "choices": list(asked.options),
        "answer": asked.answer,
        "error_type": "ok",
    },
    "allenai/ai2_arc": lambda asked: {
        "id": asked.external_id,
        "question": asked.text,
        "choices": _choices(asked),
        "answerKey": LETTERS[asked.answer],
    },
    "tau/commonsense_qa": lambda asked: {
        "id": asked.external_id,
        "question": asked.text,
        "question_concept": "x",
        "choices": _choices(asked),
        "answerKey": LETTERS[asked.answer],
    },
    "allenai/openbookqa": lambda asked: {
        "id": asked.external_id,
        "question_stem": asked.text,
        "choices": _choices(asked),
        "answerKey": LETTERS[asked.answer],
    },
    "allenai/winogrande": lambda asked: {
        "sentence": asked.text,
        "option1": asked.options[0],
        "option2": asked.options[1],
        "answer": str(asked.answer + 1),
    },
    "Rowan/hellaswag": lambda asked: {
        "ind": 1,
        "activity_label": asked.subject,
        "ctx": asked.text,
        "endings": list(asked.options),
        "label": str(asked.answer),
    },
    "truthfulqa/truthful_qa": lambda asked: {
        "question": asked.text,
        "mc1_targets": {"choices": list(_first(asked)), "labels": [1] + [0] * (len(asked.options) - 1)},
    },
    "allenai/sciq": lambda asked: {
        "question": asked.text,
        **dict(zip(("correct_answer", "distractor1", "distractor2", "distractor3"), _first(asked), strict=True)),
        "support": "",
    },
    "bigbio/med_qa": lambda asked: {
        "question": asked.text,
        "answer_idx": LETTERS[asked.answer],
        "options": [{"key": LETTERS[place], "value": text} for place, text in enumerate(asked.options)],
    },
    "GBaker/MedQA-USMLE-4-options": lambda asked: {
        "question": asked.text,
        "answer": asked.options[asked.answer],
        "options": _letter("A B C D")(asked),
        "answer_idx": LETTERS[asked.answer],
    },
    "openlifescienceai/medmcqa": lambda asked: {
        "id": asked.external_id,
        "question": asked.text,
        **_letter("opa opb opc opd")(asked),
        "cop": asked.answer,
        "subject_name": asked.subject,
    },
    "hails/agieval": lambda asked: {
        "query": f"{asked.context or ''}Q: {asked.text} Answer Choices: "
        + " ".join(f"({LETTERS[place]}){text}" for place, text in enumerate(asked.options))
        + f"\nA: Among A through {LETTERS[len(asked.options) - 1]}, the answer is",
        "choices": [f"({LETTERS[place]}){text}" for place, text in enumerate(asked.options)],
        "gold": [asked.answer],
    },
    "Idavidrein/gpqa": lambda asked: {
        "Record ID": asked.external_id,
        "Question": asked.text,
        **dict(
            zip(
                ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"),
                _first(asked),
                strict=True,
            )
        ),
        "High-level domain": asked.subject,
    },
    "CohereLabs/include-base-44": lambda asked: {
        "question": asked.text,
        **_letter("option_a option_b option_c option_d")(asked),
        "answer": asked.answer,
        "subject": asked.subject,
    },
    "facebook/belebele": lambda asked: {
        "flores_passage": asked.context,
        "question": asked.text,
        **_letter("mc_answer1 mc_answer2 mc_answer3 mc_answer4")(asked),
        "correct_answer_num": str(asked.answer + 1),
    },
    "CohereLabs/Global-MMLU": lambda asked: {
        "sample_id": f"law/test/{asked.external_id}",
        "subject": asked.subject,
        "question": asked.text,
        **_letter("option_a option_b option_c option_d")(asked),
        "answer": LETTERS[asked.answer],
    },
}
"""Name of a dataset on the hub → function that returns a question as a row of the dataset."""

OPTIONS = {"allenai/winogrande": 2, "tau/commonsense_qa": 5, "bigbio/med_qa": 5, "TIGER-Lab/MMLU-Pro": 10}


def sample(recipe: Recipe) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """Return questions and few-shot pool for a dataset: the package's sample, if there is one."""
    real = {"mmlu": MMLU, "commonsenseqa": CSQA}.get(recipe.name)
    if real is not None:
        content = read_benchmark(real)
        return list(content.questions), list(content.pool)
    options = OPTIONS.get(recipe.repository, 4)
    records = make_values(8, options)
    return records[:6], records[6:]


def whole(recipe: Recipe) -> tuple[list[QuestionRecord], list[QuestionRecord]]:
    """Return made-up questions and examples, as many as the recipe declares."""
    options = OPTIONS.get(recipe.repository, 4)
    question_count, shown = recipe.questions.count or 6, (recipe.few_shot.count if recipe.few_shot else None) or 0
    together = make_values(question_count + shown, options)
    return together[:question_count], together[question_count:]


def files(recipe: Recipe, content: tuple[list[QuestionRecord], list[QuestionRecord]] | None = None) -> dict[str, bytes]:
    """Return the files of a recipe's dataset, in the dataset's own form.

    content: questions and pool, by default the recipe's sample.
    """
    questions, pool = sample(recipe) if content is None else content
    contents = _files(recipe, recipe.questions.files, questions)
    return contents if recipe.few_shot is None else contents | _files(recipe, recipe.few_shot.files, pool)


def _files(recipe: Recipe, pattern: str, asked: list[QuestionRecord]) -> dict[str, bytes]:
    maker = ROWS[recipe.repository.partition("-")[0] if "agieval" in recipe.repository else recipe.repository]
    if not pattern.startswith("*/"):
        return {pattern.replace("*", "00000-of-00001"): _write(pattern, [maker(question) for question in asked])}
    return {
        f"{subject}/{pattern[2:].replace('*', '00000-of-00001')}": _write(
            pattern, [maker(question) for question in asked if question.subject == subject]
        )
        for subject in sorted({str(question.subject) for question in asked})
    }


def _write(name: str, rows: list[Row]) -> bytes:
    if name.endswith(".parquet"):
        return parquet(rows)
    if name.endswith(".arrow"):
        return arrow(rows)
    if name.endswith(".csv"):
        import pandas as pd

        return pd.DataFrame(rows).to_csv(index=False).encode()
    return json_lines(rows)


__all__ = ["OPTIONS", "ROWS", "files", "make_values", "pa", "sample", "whole"]
