"""Answers of the API that are rows of the documented views, and the metrics by name, as types.

Written by docs/generate.py: edit the entries of the metrics and columns.toml of the views, then run it again.
"""

# fmt: off
# ruff: noqa: E501

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class MetricValues(TypedDict):
    """Every metric by name; null where it is undefined."""

    accuracy: float | None
    accuracy_normalized: float | None
    average_accuracy: float | None
    worst_accuracy: float | None
    best_accuracy: float | None
    strong_accuracy: float | None
    retest_accuracy: float | None
    pct_drop: float | None
    sensitivity_gap: float | None
    fluctuation_rate: float | None
    prob_mass: float | None
    brier_score: float | None
    entropy: float | None
    mcqa_plus: float | None
    majority_vote: float | None
    bmca_50: float | None
    bmca_60: float | None
    bmca_70: float | None
    bmca_80: float | None
    bmca_90: float | None
    bmca_100: float | None
    consistency_index: float | None
    cora: float | None
    score: float | None
    accuracy_mean_all: float | None
    accuracy_mean_moved: float | None
    accuracy_median_moved: float | None
    accuracy_abs_diff: float | None
    accuracy_variance: float | None
    accuracy_min: float | None
    accuracy_max: float | None
    accuracy_range: float | None
    npsq_correct: float | None
    npsq_accuracy: float | None
    choice_only_accuracy: float | None
    choice_sensitivity: float | None
    choice_sensitivity_normalized: float | None
    pride_accuracy: float | None
    order_moves: float | None
    order_fluctuation_rate: float | None
    order_worst_accuracy: float | None
    order_variance: float | None
    order_question_variance: float | None
    wording_moves: float | None
    wording_fluctuation_rate: float | None
    wording_worst_accuracy: float | None
    wording_variance: float | None
    wording_question_variance: float | None
    noise_moves: float | None
    noise_fluctuation_rate: float | None
    noise_worst_accuracy: float | None
    noise_variance: float | None
    noise_question_variance: float | None
    repeats_moves: float | None
    repeats_fluctuation_rate: float | None
    repeats_worst_accuracy: float | None
    repeats_variance: float | None
    repeats_question_variance: float | None
    right_in_every_order: float | None
    right_twice_same_order: float | None
    right_twice_across_orders: float | None
    order_loss: float | None
    worst_order_low: float | None
    worst_order_high: float | None


class QuestionMetricValues(TypedDict):
    """The metrics that a single question has; null where it is undefined or not scored yet."""

    accuracy: float | None
    accuracy_normalized: float | None
    average_accuracy: float | None
    worst_accuracy: float | None
    best_accuracy: float | None
    strong_accuracy: float | None
    retest_accuracy: float | None
    sensitivity_gap: float | None
    fluctuation_rate: float | None
    prob_mass: float | None
    brier_score: float | None
    entropy: float | None
    mcqa_plus: float | None
    majority_vote: float | None
    bmca_50: float | None
    bmca_60: float | None
    bmca_70: float | None
    bmca_80: float | None
    bmca_90: float | None
    bmca_100: float | None
    score: float | None
    npsq_correct: float | None
    npsq_accuracy: float | None
    choice_only_accuracy: float | None
    choice_sensitivity: float | None
    choice_sensitivity_normalized: float | None
    pride_accuracy: float | None
    right_in_every_order: float | None
    right_twice_same_order: float | None
    right_twice_across_orders: float | None
    order_loss: float | None
    worst_order_low: float | None
    worst_order_high: float | None


class LeaderboardColumns(MetricValues):
    """A row of the view leaderboard."""

    evaluation_id: Annotated[int, Field(description="The evaluation.")]
    model: Annotated[str, Field(description="Name of the model.")]
    revision: Annotated[int, Field(description="Number of the model's revision, from 1.")]
    family: Annotated[str | None, Field(description="Family that the model belongs to.")]
    parameters: Annotated[int | None, Field(description="Number of the model's parameters.")]
    kind: Annotated[str, Field(description="huggingface, gguf, openai or external.")]
    dtype: Annotated[str | None, Field(description="Precision the weights are computed in.")]
    quantisation: Annotated[str | None, Field(description="How the weights are quantised after loading.")]
    benchmark: Annotated[str, Field(description="Name of the benchmark.")]
    benchmark_version: Annotated[str, Field(description="Name of the benchmark's content.")]
    protocol: Annotated[str, Field(description="Name of the protocol.")]
    shots: Annotated[int, Field(description="Examples in the prompt.")]
    variants: Annotated[str, Field(description="The set of variants with its parameters, such as shuffle:m=2,seed=0.")]
    replicate: Annotated[int, Field(description="0 for the first evaluation of a specification, then 1, 2, ….")]
    state: Annotated[str, Field(description="queued, running, paused, complete or failed.")]
    complete: Annotated[bool, Field(description="Whether the evaluation is sealed.")]
    questions: Annotated[int, Field(description="Questions of the evaluation.")]
    scored: Annotated[int, Field(description="Questions whose every variant is stored.")]
    sealed_at: Annotated[Time | None, Field(description="When it was sealed.")]
    mixed_engines: Annotated[bool, Field(description="Its shards were scored by different code, packages, devices or settings.")]
    copies_withdrawn: Annotated[bool, Field(description="Results of it were copied from an evaluation that was withdrawn since.")]
    distinct_prompts_min: Annotated[int | None, Field(description="Fewest different prompts that show one of its questions; below 2 nothing is known of how answers hold up.")]
    distinct_prompts_max: Annotated[int | None, Field(description="Most different prompts that show one of its questions.")]
    variants_max: Annotated[int | None, Field(description="Most prompts that show one of its questions, repeats included.")]
    orders_only: Annotated[bool | None, Field(description="No prompt alters options or labels.")]
    chance: Annotated[float | None, Field(description="Accuracy that guessing gives: the mean of 1 / number of options.")]
    sampled_for: Annotated[str | None, Field(description="A sample of the questions estimates this metric to a stated precision; the metrics are estimates.")]
    stopped_for: Annotated[str | None, Field(description="Each question is asked only until this metric is decided; other metrics that this decides are exact, the rest NULL.")]
    conflict_of_interest: Annotated[str | None, Field(description="The statement of its submitter: none, or their tie to the model's maker.")]
    lists_options: Annotated[bool, Field(description="Whether its prompts list the options; if not, every order of them shows the same prompt, and nothing is known about orders.")]
    unread: Annotated[int | None, Field(description="Prompts to which an answer was given in which no rule found one; they count as wrong.")]
    unfinished: Annotated[int | None, Field(description="Prompts whose answer was cut off at a limit, or whose thought did not end; they count as wrong.")]
    tokens_per_answer: Annotated[float | None, Field(description="Mean length of the output for a prompt, its thought included.")]
    thought_tokens_per_answer: Annotated[float | None, Field(description="Mean length of the thought alone.")]


class QuestionMetricsColumns(QuestionMetricValues):
    """A row of the view question_metrics."""

    evaluation_id: Annotated[int, Field(description="The evaluation.")]
    question_id: Annotated[int, Field(description="The question.")]
    external_id: Annotated[str, Field(description="The question's id in the benchmark file.")]
    subject: Annotated[str | None, Field(description="The question's subject.")]
    flagged: Annotated[bool, Field(description="Whether the options refer to each other or are sorted numbers.")]
    expected: Annotated[int, Field(description="Variants asked for.")]
    stored: Annotated[int, Field(description="Variants stored.")]
    scored: Annotated[bool, Field(description="Whether all of them are stored.")]


class PredictionColumns(TypedDict):
    """A row of the view prediction_detail."""

    evaluation_id: Annotated[int, Field(description="The evaluation.")]
    question_id: Annotated[int, Field(description="The question.")]
    external_id: Annotated[str, Field(description="The question's id in the benchmark file.")]
    subject: Annotated[str | None, Field(description="The question's subject.")]
    variant: Annotated[int, Field(description="Ordinal of the variant, from 0.")]
    variant_name: Annotated[str | None, Field(description="Name of the variant, such as rotation 1.")]
    shown: Annotated[list[int], Field(description="Option at each position.")]
    question_shown: Annotated[bool, Field(description="False where the question was replaced by an empty text.")]
    own_options: Annotated[bool, Field(description="Whether exactly the question's own options were shown.")]
    unchanged: Annotated[bool, Field(description="Whether the question was shown just as the benchmark has it.")]
    answer: Annotated[int, Field(description="The right option.")]
    chosen_position: Annotated[int | None, Field(description="The position answered.")]
    chosen_option: Annotated[int | None, Field(description="The option answered.")]
    correct: Annotated[bool, Field(description="Whether the answer is right; no valid answer is wrong.")]
    tied: Annotated[bool, Field(description="Whether several positions shared the highest score; the lowest was taken.")]
    state: Annotated[str, Field(description="answered; unread: no rule found an answer, or none was recorded; unfinished: the thought did not end, or the limit was reached before an answer; empty: nothing was written; refused: the provider's filter.")]
    extraction_rule: Annotated[str | None, Field(description="Which rule found the answer in generated text.")]
    label_logprobs: Annotated[list[float] | None, Field(description="Log-probability of each position's label over the whole vocabulary.")]
    label_probabilities: Annotated[list[float] | None, Field(description="The same as probabilities that sum to 1 over the labels shown.")]
    label_mass: Annotated[float | None, Field(description="What those probabilities summed to before.")]
    answer_probability: Annotated[float | None, Field(description="Probability of the right option.")]
    brier_score: Annotated[float | None, Field(description="Brier score of the prompt.")]
    entropy: Annotated[float | None, Field(description="Entropy of the probabilities, divided by its maximum.")]
    prompt_digest: Annotated[str | None, Field(description="SHA-256 of the prompt and its continuations.")]
    logprobs_without_question: Annotated[list[float] | None, Field(description="Log-probability of each position's label when the question is left out.")]
    accuracy_normalized: Annotated[bool | None, Field(description="Whether the highest log-probability per byte of the option is right.")]
    npsq_correct: Annotated[float | None, Field(description="NPSQ of the right option.")]
    npsq_accuracy: Annotated[bool | None, Field(description="Whether choosing by NPSQ is right.")]
    choice_only_accuracy: Annotated[bool | None, Field(description="Whether choosing without the question is right.")]
    choice_sensitivity: Annotated[bool | None, Field(description="Whether the options outweigh the question between the two leading ones.")]
    choice_sensitivity_normalized: Annotated[bool | None, Field(description="The same by log-probability per byte of the option.")]
    generation: Annotated[str | None, Field(description="Text that the model wrote, without a thought before it.")]
    extracted: Annotated[str | None, Field(description="The answer that was found in it.")]
    generation_tokens: Annotated[int | None, Field(description="Tokens that the model wrote, thought and answer.")]
    generation_finished: Annotated[bool | None, Field(description="Whether the model or a stop sequence ended the text, and not the limit on tokens.")]
    generation_seconds: Annotated[float | None, Field(description="From when the prompt was asked to its last token.")]
    generation_forced: Annotated[bool | None, Field(description="True if the thought was closed at its limit and the answer asked for.")]
    thought_characters: Annotated[int | None, Field(description="Length of the thought, markers left out.")]
    thought_tokens: Annotated[int | None, Field(description="Tokens of the thought, with the marker that ends it.")]
    thought_digest: Annotated[str | None, Field(description="SHA-256 of the thought, with the markers around it.")]
    thought_apart: Annotated[bool | None, Field(description="Whether the server or provider handed the thought over apart.")]
    thought_opened: Annotated[bool | None, Field(description="True if the model's template had opened the thought.")]


class PublishedColumns(TypedDict):
    """A row of the view published_results."""

    paper: Annotated[str, Field(description="Whose paper.")]
    paper_table: Annotated[str, Field(description="Number of the table.")]
    section: Annotated[str | None, Field(description="Section of the table.")]
    model: Annotated[str | None, Field(description="The model, by the paper's name.")]
    benchmark: Annotated[str | None, Field(description="The benchmark, by the paper's name.")]
    protocol: Annotated[str | None, Field(description="How the model was asked, in the paper's words.")]
    target: Annotated[str | None, Field(description="What the metric is held against.")]
    metric: Annotated[str, Field(description="The metric, by the paper's name.")]
    printed: Annotated[str, Field(description="The number with its digits.")]
    value: Annotated[float, Field(description="The number.")]
    unit: Annotated[str | None, Field(description="Its unit in the paper.")]
    rank: Annotated[int | None, Field(description="The rank the paper prints.")]
    standard_deviation: Annotated[float | None, Field(description="The standard deviation the paper prints.")]
    registry_metric: Annotated[str | None, Field(description="The same metric by this registry's name.")]
    registry_value: Annotated[float | None, Field(description="The number in this registry's unit.")]
