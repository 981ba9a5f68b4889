"""The page and the JSON of an evaluation under a product: what moves the accuracy, and which accuracy a wording gives."""

import pytest

from registry.db import read_session
from registry.errors import VariantError
from registry.verification import verify_evaluation
from tests.web.seed import evaluate
from tests.web.test_pages import text_of

pytestmark = pytest.mark.one_engine


def by_wording(prompt):
    """Wrong wherever the task follows the options."""
    answer = prompt.question.answer
    after = prompt.variant.template is not None and prompt.variant.template.place == "after"
    return prompt.variant.order.index((answer + 1) % len(prompt.question.options) if after else answer)


@pytest.fixture
def product(own):
    return evaluate(own.engine, "alpha", "capitals", by_wording, variants="cyclic*wording:templates=0+1+4")


def test_the_page_says_what_moves_the_accuracy_and_the_json_has_the_same(own, product):
    text = text_of(own.client.get(f"/evaluations/{product}"))
    assert "The order moves it by 0.0 points , the wording by 57.7 points ." in text
    assert "50&#8239;% quantile 100.0 %" in text
    assert "question first 0.0 %" in text
    document = own.client.get(f"/api/v1/evaluations/{product}").json
    assert [axis["axis"] for axis in document["axes"]["axes"]] == ["order", "wording"]
    assert [level["accuracy"] for level in document["wordings"]["levels"]] == [1.0, 0.0, 1.0]
    assert document["metrics"]["worst_accuracy"] == 0.0
    with read_session(own.engine) as session:
        assert verify_evaluation(session, product)["problems"] == []


def test_a_sample_of_the_cells_has_estimates_and_no_axes(own):
    evaluation_id = evaluate(
        own.engine, "alpha", "capitals", by_wording, variants="wording:templates=0-4*sample:cells=2"
    )
    document = own.client.get(f"/api/v1/evaluations/{evaluation_id}").json
    assert document["axes"] is None
    assert (document["wordings"]["exact"], document["wordings"]["asked_share"]) == (False, 0.4)
    assert "Estimated from 40.0 % of the cells" in text_of(own.client.get(f"/evaluations/{evaluation_id}"))


def test_a_sample_that_is_all_cells_of_every_question_is_refused(own):
    with pytest.raises(VariantError, match="no question has more than 5 cells"):
        evaluate(own.engine, "alpha", "capitals", by_wording, variants="wording:templates=0-4*sample:cells=400")


def test_orders_alone_have_neither(own):
    document = own.client.get(f"/api/v1/evaluations/{own.seeded.evaluations['alpha']}").json
    assert (document["axes"], document["wordings"]) == (None, None)
