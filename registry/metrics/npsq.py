"""Choice sensitivity and NPSQ: Cho et al., *Choices Speak Louder than Questions*.

All of them compare log P(x|Q,C), an option's log-probability with the question, with log P(x|C), the same with the
question replaced by an empty string. They use the original order (if there is none, the lowest variant with the
question's own options). Arrays run by position; ties go to the lowest. View: question_metrics.
Example: (with|without) = (−1|−4), (−2|−2.5): NPSQ .75 and .2; Δchoice −1.5 against Δquestion 2.5, so not sensitive.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from registry.metrics import examples
from registry.metrics.averaging import MeanOverQuestions, QuestionMetric, zero_or_one
from registry.metrics.entry import Example, Metric
from registry.metrics.outcome import Outcomes, VariantOutcome, original_variant, own_variants
from registry.metrics.papers import cho
from registry.metrics.permutation import accuracy


@dataclass(frozen=True)
class ChoiceScores:
    """The scores of one prompt and its counterpart without the question; None if undefined."""

    npsq_correct: float | None = None
    npsq_accuracy: bool | None = None
    choice_only_accuracy: bool | None = None
    choice_sensitivity: bool | None = None
    choice_sensitivity_normalized: bool | None = None


def npsq(with_question: float, without_question: float) -> float | None:
    """Return (log P(x|Q,C) − log P(x|C)) / −log P(x|C), from −∞ to 1; 0 if the question adds nothing.

    None if log P(x|C) is 0, or so near it that the quotient is beyond float64: nothing is left to close.

    >>> npsq(-1, -4), npsq(-2, -2.5)
    (0.75, 0.2)
    """
    if without_question == 0:
        return None
    value = (with_question - without_question) / -without_question
    return value if math.isfinite(value) else None


def highest(values: Sequence[float]) -> int:
    """Return the position of the highest value; the lowest position on a tie."""
    return max(range(len(values)), key=lambda position: (values[position], -position))


def choice_sensitive(with_question: Sequence[float], without_question: Sequence[float]) -> bool | None:
    """Return whether the choices weigh more than the question between the two leading options.

    x₁ and x₂ have the highest log P(x|Q,C). Δchoice = log P(x₁|C) − log P(x₂|C), Δquestion is the rest of their gap.
    None for fewer than two options.
    """
    if len(with_question) < 2:
        return None
    first, second = sorted(range(len(with_question)), key=lambda position: (-with_question[position], position))[:2]
    by_choice = without_question[first] - without_question[second]
    by_question = with_question[first] - with_question[second] - by_choice
    return by_choice > by_question


def per_byte(logprobs: Sequence[float], option_bytes: Sequence[int]) -> list[float]:
    """Divide log-probabilities by the options' lengths in UTF-8 bytes."""
    return [logprob / length for logprob, length in zip(logprobs, option_bytes, strict=True)]


def choice_scores(
    with_question: Sequence[float], without_question: Sequence[float], option_bytes: Sequence[int], right: int | None
) -> ChoiceScores:
    """Compute all scores of one prompt and its counterpart without the question.

    right: position of the right option; None if it is not shown.
    """
    values = [npsq(*pair) for pair in zip(with_question, without_question, strict=True)]
    defined = [value for value in values if value is not None]
    return ChoiceScores(
        npsq_correct=None if right is None else values[right],
        npsq_accuracy=highest(defined) == right if len(defined) == len(values) else None,
        choice_only_accuracy=highest(without_question) == right,
        choice_sensitivity=choice_sensitive(with_question, without_question),
        choice_sensitivity_normalized=choice_sensitive(
            per_byte(with_question, option_bytes), per_byte(without_question, option_bytes)
        ),
    )


def _choose_variant(outcomes: Outcomes) -> VariantOutcome | None:
    return original_variant(outcomes) or next(iter(own_variants(outcomes)), None)


def _read_score(name: str) -> QuestionMetric:
    """Return a function that reads one of the ChoiceScores of a question's original order, or else of its first.

    None without both log-probabilities.
    """

    def value(outcomes: Outcomes) -> float | None:
        chosen = _choose_variant(outcomes)
        if chosen is None or chosen.logprobs is None or chosen.logprobs_without_question is None:
            return None
        scores = choice_scores(chosen.logprobs, chosen.logprobs_without_question, chosen.option_bytes, chosen.right)
        result = getattr(scores, name)
        return None if result is None else float(result)

    return value


def accuracy_normalized(outcomes: Outcomes) -> float | None:
    """Return 1 if the option with the highest log-probability per byte is right on the original order, else 0.

    None without log-probabilities or the original order.
    """
    original = original_variant(outcomes)
    if original is None or original.logprobs is None:
        return None
    return float(highest(per_byte(original.logprobs, original.option_bytes)) == original.right)


_BOTH: Final = (
    "Log-probabilities with the question and without it, such as `choice-only` asks for; taken on the original order, "
    "or on the first where there is no original."
)
_NOT_STORED: Final = "log-probabilities with or without the question are not stored"


def _average_counterparts(name: str) -> MeanOverQuestions:
    """Define the average over questions of one of the true or false ChoiceScores."""
    return MeanOverQuestions(_read_score(name), zero_or_one(f"question_score.{name}"))


METRICS: Final = (
    Metric(
        name="npsq_correct",
        label="NPSQ of the right option",
        better="higher",
        summary="How far the question closes the right option's gap to certainty.",
        formulas=(r"\text{NPSQ}(a) = \frac{\log P(a \mid Q, C) - \log P(a \mid C)}{- \log P(a \mid C)}",),
        sources=(cho("NPSQ"),),
        needs=f"{_BOTH} Undefined where the choices alone are certain, log P(a | C) = 0.",
        example=Example(examples.WITHOUT_QUESTION, "(−1 + 4)/4.", "0.75"),
        low=None,
        unit="share of the gap",
        averaging=MeanOverQuestions(_read_score("npsq_correct"), "question_score.npsq_correct"),
        undefined=f"{_NOT_STORED}, or log P(x given the options alone) is 0",
    ),
    Metric(
        name="npsq_accuracy",
        label="NPSQ accuracy",
        zero_or_one=True,
        better="higher",
        summary="Right answers when choosing by NPSQ instead of probability.",
        formulas=(r"[ \operatorname{argmax}_x \text{NPSQ}(x) = a ]",),
        sources=(cho("acc_npsq"),),
        needs=f"{_BOTH} Undefined where NPSQ is undefined for any option.",
        example=Example(examples.WITHOUT_QUESTION, "NPSQ is .75 for a and (−2 + 2.5)/2.5 = .2 for b: a, right.", "1"),
        differs="The full paper (ICLR 2026) calls it acc_npsq.",
        averaging=_average_counterparts("npsq_accuracy"),
        undefined="as `npsq_correct`, for any option",
    ),
    Metric(
        name="choice_only_accuracy",
        label="Choice-only accuracy",
        zero_or_one=True,
        better="higher",
        summary="Right answers with the question left out: the options alone give these away.",
        formulas=(r"[ \operatorname{argmax}_x \log P(x \mid C) = a ]",),
        sources=(cho("choice-only"),),
        needs=_BOTH,
        example=Example(examples.WITHOUT_QUESTION, "Without the question b leads, −2.5 against −4: wrong.", "0"),
        averaging=_average_counterparts("choice_only_accuracy"),
        undefined=_NOT_STORED,
    ),
    Metric(
        name="choice_sensitivity",
        label="Choice sensitivity",
        zero_or_one=True,
        better="lower",
        summary="Questions where the options weigh more than the question between the two leading options.",
        formulas=(
            r"[ \Delta_{\text{choice}} > \Delta_{\text{question}} ]",
            r"\Delta_{\text{choice}} = \log P(x_1 \mid C) - \log P(x_2 \mid C)",
            r"\Delta_{\text{question}} = \log P(x_1 \mid Q, C) - \log P(x_2 \mid Q, C) - \Delta_{\text{choice}}",
        ),
        sources=(cho("choice sensitivity"),),
        needs=f"{_BOTH} x₁ and x₂ are the two options that lead with the question.",
        example=Example(
            examples.WITHOUT_QUESTION,
            "x₁ is a, x₂ is b. Δchoice = −4 + 2.5 = −1.5. The gap with the question is −1 + 2 = 1, so Δquestion = 1 + "
            "1.5 = 2.5. −1.5 is not more than 2.5.",
            "0",
        ),
        averaging=_average_counterparts("choice_sensitivity"),
        undefined=_NOT_STORED,
    ),
    Metric(
        name="accuracy_normalized",
        label="Accuracy, length-normalised",
        zero_or_one=True,
        better="higher",
        summary="Right answers on the original order, choosing by log-probability per byte of the option.",
        formulas=(r"\left[ \operatorname{argmax}_x \frac{\log P(x \mid Q, C)}{\text{bytes}(x)} = a \right]",),
        sources=(cho("length normalisation"),),
        needs="Log-probabilities on the original order, of every question that has an `accuracy`. An option's length "
        "is counted in UTF-8 bytes.",
        example=Example(examples.WITHOUT_QUESTION, "−1/2 = −.5 for a, −2/8 = −.25 for b: b leads, wrong.", "0"),
        averaging=MeanOverQuestions(
            accuracy_normalized, zero_or_one("question_score.accuracy_normalized"), compared_with=("accuracy", accuracy)
        ),
        undefined="the original or its log-probabilities are not stored, for one question or more",
    ),
    Metric(
        name="choice_sensitivity_normalized",
        label="Choice sensitivity, length-normalised",
        zero_or_one=True,
        better="lower",
        summary="Choice sensitivity by log-probability per byte of the option.",
        formulas=(
            r"[ \Delta_{\text{choice}} > \Delta_{\text{question}} ]",
            r"\frac{\log P(x \mid \cdot)}{\text{bytes}(x)} \text{ in place of } \log P(x \mid \cdot)",
        ),
        sources=(cho("choice sensitivity with length normalisation"),),
        needs=f"{_BOTH} An option's length is counted in UTF-8 bytes. NPSQ itself does not change with the length.",
        example=Example(
            examples.WITHOUT_QUESTION,
            "With the question −.5 and −.25: x₁ is b. Without it −4/2 = −2 and −2.5/8 = −.3125, so Δchoice = −.3125 + "
            "2 = 1.6875. The gap is .25, so Δquestion = .25 − 1.6875 = −1.4375: less.",
            "1",
        ),
        averaging=_average_counterparts("choice_sensitivity_normalized"),
        undefined=_NOT_STORED,
    ),
)
