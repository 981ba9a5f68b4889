"""A question, as one evaluation showed it and over all evaluations."""

from collections.abc import Sequence
from typing import Final

from flask import render_template, request
from flask.typing import ResponseReturnValue

from registry.results.selectables import Row
from web import charts, parameters, queries
from web.formats import letter
from web.pages.blueprint import blueprint
from web.paging import MAX_PER_PAGE, paged
from web.responses import session

VARIANTS_PER_PAGE: Final = 24


@blueprint.get("/evaluations/<evaluation_id>/questions/<question_id>")
def evaluation_question(evaluation_id: str, question_id: str) -> ResponseReturnValue:
    """A question as one evaluation showed it: every variant with choice and probabilities."""
    asked = parameters.paging(request.args, per_page=VARIANTS_PER_PAGE, most=MAX_PER_PAGE)
    row = queries.evaluation(session(), parameters.identifier("evaluation", evaluation_id))
    question, expected = queries.asked_question(
        session(), row["evaluation_id"], parameters.identifier("question", question_id)
    )
    predictions = queries.predictions(session(), row["evaluation_id"], question["question_id"])
    paging = paged(len(predictions), VARIANTS_PER_PAGE, asked=asked)
    page = predictions[paging.offset : paging.offset + paging.per_page]
    own = [prediction for prediction in predictions if prediction["own_options"] and prediction["question_shown"]]
    return render_template(
        "evaluation_question.html",
        evaluation=row,
        question=question,
        expected=expected,
        predictions=predictions,
        shown=[_as_shown(prediction, question["options"], row["inserted"]) for prediction in page],
        own=own,
        probabilities_chart=charts.probabilities(own, question["options"], question["answer"]),
        paging=paging,
        prompts=queries.exact_prompts(session(), row, question["question_id"], page),
        answer_label=letter(question["answer"]),
    )


def _as_shown(prediction: Row, options: Sequence[str], inserted: dict[str, str]) -> Row:
    """A prediction with its lines in the order in which the model saw them."""
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
    """A benchmark's question over all evaluations."""
    page, per_page = parameters.paging(request.args, per_page=100, most=MAX_PER_PAGE)
    row = queries.question(session(), parameters.identifier("question", question_id))
    outcomes, total = queries.question_everywhere(
        session(), row["question_id"], limit=per_page, offset=(page - 1) * per_page
    )
    return render_template(
        "question.html",
        question=row,
        outcomes=outcomes,
        paging=paged(total, per_page, asked=(page, per_page)),
        answer_label=letter(row["answer"]),
    )
