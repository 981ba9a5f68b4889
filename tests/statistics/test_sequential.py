"""Sampling to a precision: the order, the estimate, and intervals that hold at every look.

The full replay is `python -m tests.bench.bench_precision`; its figures are in docs/evidence/statistics.md.
"""

import numpy as np
import pytest

from registry.errors import MetricInputError
from registry.statistics.sequential import INFORMATION, critical_values, score_interval
from registry.statistics.survey import (
    Frame,
    batch_ends,
    drawn_order,
    estimates,
    frame_by_history,
    frame_by_subject,
    looks,
    worst_case,
)
from tests.bench.bench_precision import betting_share, fixed_sample, mmlu_pro, replayed


def test_one_look_has_the_critical_value_of_a_fixed_sample_and_several_share_the_error():
    assert critical_values(0.95, (1.0,))[0] == pytest.approx(1.959964, abs=1e-5)
    paths = np.cumsum(np.random.default_rng(0).standard_normal((200_000, 8)) * np.sqrt(1 / 8), axis=1)
    critical = np.array(critical_values(0.95)) * np.sqrt(np.array(INFORMATION))
    assert (np.abs(paths) >= critical).any(axis=1).mean() == pytest.approx(0.05, abs=0.002)
    assert list(critical_values(0.95)) == sorted(critical_values(0.95), reverse=True)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95.0, float("nan")])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(MetricInputError, match="confidence"):
        critical_values(confidence)


def test_an_interval_has_a_length_where_every_answer_was_right():
    low, high = score_interval(np.array([1.0, 0.0]), np.zeros(2), 100, 1.96)
    assert low[0] == pytest.approx(100 / (100 + 1.96**2))
    assert high.tolist() == pytest.approx([1.0, 1.96**2 / (100 + 1.96**2)])
    # Whatever the rounding: of these sizes some had an end of 10⁻¹⁸.
    for questions in range(100, 300):
        low, high = score_interval(np.array([1.0, 0.0]), np.zeros(2), questions, 3.0)
        assert (high[0], low[1]) == (1.0, 0.0)


def test_every_beginning_of_the_order_holds_each_subject_in_its_proportion():
    subjects = ["law"] * 300 + ["physics"] * 100 + ["rare"] * 2
    frame = frame_by_subject(subjects, smallest=0.05)
    names = [f"q{number}" for number in range(402)]
    order = drawn_order(frame, names, seed=1)
    assert sorted(order) == list(range(402))
    assert order != drawn_order(frame, names, seed=2)
    for asked in (40, 100, 200):
        law = sum(place < 300 for place in order[:asked])
        assert abs(law - asked * 300 / 402) < 2


def test_models_that_differ_on_a_question_have_it_asked_more_often():
    generator = np.random.default_rng(0)
    certain, open_ = np.ones((300, 8)), generator.random((300, 8)) < 0.5
    frame = frame_by_history(np.concatenate([certain, open_]).astype(float))
    order = drawn_order(frame, [str(number) for number in range(600)], seed=0)
    assert sum(place >= 300 for place in order[:100]) > 60
    assert (frame.sizes / 600) @ frame.rates == pytest.approx(1)


def test_the_estimate_of_all_questions_is_their_mean_and_one_of_many_samples_is_unbiased():
    generator = np.random.default_rng(0)
    easy = generator.random(500)
    known = (generator.random((500, 6)) < easy[:, None]).astype(float)
    values = (generator.random(500) < easy).astype(float)
    frame = frame_by_history(known)
    names = [str(number) for number in range(500)]
    orders = np.array([drawn_order(frame, names, seed)[:150] for seed in range(300)])
    means, errors = estimates(frame, orders, values[orders])
    assert abs(means.mean() - values.mean()) < 3 * means.std() / np.sqrt(300)
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.15)
    plain = Frame(np.zeros(500, dtype=np.int64), np.ones(1), np.empty((500, 0)))
    assert errors.mean() < estimates(plain, orders, values[orders])[1].mean()


def test_history_that_says_nothing_leaves_the_estimate_unbiased():
    generator = np.random.default_rng(0)
    values = (generator.random(500) < 0.3).astype(float)
    frame = frame_by_history((generator.random((500, 6)) < 0.5).astype(float))
    names = [str(number) for number in range(500)]
    orders = np.array([drawn_order(frame, names, seed)[:150] for seed in range(300)])
    means, _ = estimates(frame, orders, values[orders])
    assert abs(means.mean() - values.mean()) < 3 * means.std() / np.sqrt(300)


def test_looks_end_when_the_interval_is_narrow_enough_or_nothing_is_left_to_ask():
    values = (np.random.default_rng(0).random(1000) < 0.5).astype(float)
    frame = frame_by_subject([None] * 1000, 0.1)
    ends = batch_ends(1000, 10)
    found = looks(frame, range(1000), values, ends, 0.05, 0.95)
    assert found[-1].half_width <= 0.05 < found[-2].half_width
    assert found[-1].questions <= 1.1 * worst_case(1000, 0.05, critical_values()[-1])
    assert [look.questions for look in found] == sorted({look.questions for look in found})
    capped = looks(frame, range(1000), values, batch_ends(1000, 10, 150), 0.05, 0.95)
    assert (capped[-1].questions, capped[-1].half_width > 0.05) == (150, True)
    whole = looks(frame, range(1000), values, ends, 0.001, 0.95)[-1]
    assert (whole.questions, whole.value, whole.half_width) == (1000, values.mean(), 0)
    assert batch_ends(150, 3)[-2:] == [138, 150]  # too few would be left for an interval
    values[120] = np.nan
    assert all(look.questions <= 120 for look in looks(frame, range(1000), values, ends, 0.05, 0.95))


@pytest.mark.parametrize("history", [False, True])
def test_real_models_are_covered_at_every_look(history):
    """200 replays: a standard error is 1.5 points."""
    answers = mmlu_pro()
    covered, throughout, share = [], [], []
    for model in range(0, 26, 5):
        others = np.delete(answers.scores, model, axis=1)
        frame = frame_by_history(others) if history else frame_by_subject(answers.subjects, 0.04)
        run = replayed(frame, answers.scores[:, model], 0.05, 34, seed=model)
        covered += run.covered.tolist()
        throughout += run.covered_throughout.tolist()
        share.append(np.median(run.asked) / len(answers.scores))
    assert 0.91 <= np.mean(throughout) <= np.mean(covered) <= 0.99
    assert np.median(share) < (0.02 if history else 0.032)


def test_betting_needs_more_than_a_fixed_sample():
    values = mmlu_pro().scores[:, 0]
    assert fixed_sample(values, 0.05) < betting_share(values, 0.05, seed=0) < 3 * fixed_sample(values, 0.05)
