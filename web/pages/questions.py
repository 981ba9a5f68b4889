"""A question's page, in one evaluation and over all evaluations."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean
from typing import Final

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.predictions.stored import filter_archived
from registry.prompting.labels import letter
from registry.schema.selectables import Row
from web.pages.blueprint import blueprint
from web.serving.responses import session
from web.shown import queries
from web.urls import parameters
from web.urls.paging import MAX_PER_PAGE, find_page

VARIANTS_PER_PAGE: Final = 24
MOST_IN_ORDER: Final = 24
"""Most variants in their own order; if there are more, the page groups them by the chosen option."""


@blueprint.get("/evaluations/<evaluation_id>/questions/<question_id>")
def evaluation_question(evaluation_id: str, question_id: str) -> ResponseReturnValue:
    """Show a question in one evaluation: every variant with choice and probabilities."""
    requested = parameters.paging(request.args, per_page=VARIANTS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    question, expected = queries.find_question(
        session(), row["evaluation_id"], parameters.identifier("question", question_id)
    )
    archived = bool(filter_archived(session(), [row["evaluation_id"]]))
    predictions = [] if archived else queries.predictions(session(), row["evaluation_id"], question["question_id"])
    paging = find_page(len(predictions), VARIANTS_PER_PAGE, asked=requested)
    page = predictions[paging.offset : paging.offset + paging.per_page]
    own = [prediction for prediction in predictions if prediction["own_options"] and prediction["question_shown"]]
    thoughts = {}
    if any(prediction["thought_characters"] for prediction in predictions):
        thoughts = queries.thoughts(session(), row["evaluation_id"], question["question_id"])
    return render_template(
        "evaluation_question.html",
        evaluation=row,
        question=question,
        expected=expected,
        archived=archived,
        predictions=predictions,
        thoughts=thoughts,
        shown=[_as_shown(prediction, question["options"], row["inserted"]) for prediction in page],
        own=own,
        matrix=_matrix(predictions, question, row["inserted"]),
        positions=Counter(line["chosen_position"] for line in own if line["chosen_position"] is not None).most_common(),
        beside=queries.flips_beside(session(), row["evaluation_id"], question),
        unfolded="page" in request.args,
        paging=paging,
        prompts=queries.exact_prompts(session(), row, question["question_id"], page),
    )


def _matrix(predictions: Sequence[Row], question: Row, inserted: Mapping[str, str]) -> Row:
    """Return the choice in each variant: `columns`, one per option, and `groups` of lines, one per variant.

    Columns have `option`, `name`, `text`, `answer` and `inserted` and, over the variants with the question's own
    options, `chosen` (how often) and `probability` (the mean; None if any is unknown). Lines have the prediction and
    `cells`, one per column: None if the option was not shown, else `position`, `chosen` and `probability`.
    """
    options = question["options"]
    foreign = sorted({option for row in predictions for option in row["shown"] if option < 0}, reverse=True)
    own = [row for row in predictions if row["own_options"] and row["question_shown"]]
    columns = []
    for option in (*range(len(options)), *foreign):
        probabilities = [_probability(row, option) for row in own if option in row["shown"]]
        columns.append(
            {
                "option": option,
                "name": letter(option) if option >= 0 else f"+{-option}",
                "text": options[option] if option >= 0 else inserted.get(str(option), "an inserted option"),
                "answer": option == question["answer"],
                "inserted": option < 0,
                "chosen": sum(row["chosen_option"] == option for row in own),
                "probability": fmean(defined)
                if (defined := [value for value in probabilities if value is not None]) and len(defined) == len(own)
                else None,
            }
        )
    lines = [
        row | {"place": number, "cells": [_cell(row, column["option"]) for column in columns]}
        for number, row in enumerate(predictions)
    ]
    return {"columns": columns, "groups": _groups(lines, columns), "own": len(own)}


def _probability(row: Row, option: int) -> float | None:
    if row["label_probabilities"] is None:
        return None
    probability: float = row["label_probabilities"][row["shown"].index(option)]
    return probability


def _cell(row: Row, option: int) -> Row | None:
    if option not in row["shown"]:
        return None
    position = row["shown"].index(option)
    return {
        "position": position,
        "chosen": position == row["chosen_position"],
        "probability": _probability(row, option),
    }


def _groups(lines: Sequence[Row], columns: Sequence[Row]) -> list[tuple[str | None, list[Row]]]:
    """Return the lines in order, or grouped by the chosen option if they are many; lines without the question last."""
    titles = {column["option"]: f"Chosen: {column['name']}" for column in columns} | {None: "No valid answer"}
    with_question = [line for line in lines if line["question_shown"]]
    without = [line for line in lines if not line["question_shown"]]
    if len(with_question) <= MOST_IN_ORDER:
        groups: list[tuple[str | None, list[Row]]] = [(None, with_question)] if with_question else []
    else:
        place = {option: number for number, option in enumerate(titles)}

        def by_choice(line: Row) -> int:
            return place[line["chosen_option"]]

        by_option = groupby(sorted(with_question, key=by_choice), key=lambda line: line["chosen_option"])
        groups = [(titles[option], list(members)) for option, members in by_option]
    return [*groups, ("Shown without the question", without)] if without else groups


def _as_shown(prediction: Row, options: Sequence[str], inserted: dict[str, str]) -> Row:
    """Return a prediction with its options in the order in which the model saw them."""
    probabilities = prediction["label_probabilities"]
    return prediction | {
        "lines": [
            {
                "label": letter(position),
                "option": option,
                "text": options[option] if option >= 0 else inserted.get(str(option), "an inserted option"),
                "chosen": position == prediction["chosen_position"],
                "right": option == prediction["answer"],
                "probability": None if probabilities is None else probabilities[position],
            }
            for position, option in enumerate(prediction["shown"])
        ]
    }


@blueprint.get("/questions/<question_id>")
def question(question_id: str) -> ResponseReturnValue:
    """Show a benchmark's question over all evaluations."""
    page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
    row = queries.question(session(), parameters.identifier("question", question_id))
    outcomes, total = queries.question_everywhere(
        session(), row["question_id"], limit=per_page, offset=(page - 1) * per_page
    )
    ids = [outcome["evaluation_id"] for outcome in outcomes]
    return render_template(
        "question.html",
        question=row,
        outcomes=outcomes,
        choices=queries.choices(session(), row["question_id"], ids),
        archived=filter_archived(session(), ids),
        paging=find_page(total, per_page, asked=(page, per_page)),
    )
