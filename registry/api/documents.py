"""What the HTTP API answers, as types: its OpenAPI document is made from them, and `shuffleboard.Client` returns them.

Times are texts in ISO 8601, UTC. Numbers are as stored; null means undefined, or not known yet. Arrays run by position
where a prediction is concerned. Keys are only ever added.
"""

from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from registry.api.answer_rows import (
    LeaderboardColumns,
    MetricValues,
    PredictionColumns,
    PublishedColumns,
    QuestionMetricsColumns,
    Time,
)

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$", description="SHA-256, hexadecimal.")]
Interval = Annotated[list[float], Field(min_length=2, max_length=2, description="Low and high of a 95 % interval.")]
RankInterval = Annotated[list[int], Field(min_length=2, max_length=2, description="Lowest and highest rank, 95 %.")]


class Page(TypedDict):
    """Where a page stands in its list of `total` items; next: the address of the page behind it, null on the last."""

    total: int
    page: int
    per_page: int
    next: str | None


class Problem(TypedDict):
    """An error, after RFC 9457. `detail` names the thing, its value and what to do."""

    type: str
    title: str
    status: int
    detail: str
    instance: str


# Metrics


class ScopeMetric(TypedDict):
    """A metric over a scope of questions: `all`, `unflagged`, `subject:…`, `category:…`; or under errata N.

    Those are `without-disputed@N` and `with-corrected-keys@N`: over all questions that count then, by the keys of then.
    """

    scope: str
    metric: str
    definition_version: int
    value: float | None
    n: Annotated[int, Field(description="Over how many questions.")]
    interval_low: float | None
    interval_high: float | None
    computed_at: Time | None


class MetricDefinition(TypedDict):
    """What a metric is. `low` and `high`: its range, null where it is unbounded."""

    metric: str
    label: str
    better: Annotated[str, Field(json_schema_extra={"enum": ["higher", "lower", "neither"]})]
    unit: str
    low: float | None
    high: float | None
    definition_version: int
    view: Annotated[str, Field(description="The SQL view that computes it.")]
    summary: str
    source: str
    guide: Annotated[str, Field(description="Where the guide explains it.")]


class MetricList(TypedDict):
    """Every metric, in the guide's order."""

    items: list[MetricDefinition]


# Evaluations


class Wait(TypedDict):
    """What an evaluation waits for that no worker can hasten; kind: `batch`, `rate-limit` or `budget`.

    since: null where it is not known. until: when what `ends` says happens; null: not known, or somebody must act.
    """

    what: str
    kind: str
    reason: str
    ends: str
    since: Time | None
    until: Time | None


class Progress(TypedDict):
    """How far an evaluation is. Rate and time left are null until something was measured."""

    evaluation: int
    state: str
    complete: bool
    questions: int
    prompts: int
    prompts_done: int
    shards: int
    shards_done: int
    shards_leased: int
    shards_failed: int
    failures: int
    crashes: int
    workers: int
    no_worker: Annotated[bool, Field(description="It waits on a queue that no live worker serves.")]
    waits: list[Wait]
    prompts_per_second: float | None
    seconds_left: float | None
    tokens_naive: int | None
    tokens_computed: int | None
    tokens_saved: int | None
    error: None


class NotRanked(TypedDict):
    """Why something has no rank, and the command that asks for what is missing."""

    reason: str
    command: str


class AboveChance(TypedDict):
    """A metric on the scale on which guessing is 0 and perfect 1; `chance`: what guessing gives on its own scale."""

    value: float | None
    chance: float | None
    interval_low: float | None
    interval_high: float | None


class LeaderboardRow(LeaderboardColumns):
    """An evaluation with its metrics. `rank`: among those who were asked the same; null until it is sealed."""

    prompts: int
    asked: Annotated[str | None, Field(description="In how many orders or variants; null until it is sealed.")]
    not_ranked: Annotated[
        NotRanked | None, Field(description="Where it has no rank because it was asked in one order.")
    ]
    ranked_by: Annotated[
        str | None,
        Field(description="Metric of its rank: accuracy where all were asked in one order; null until it is sealed."),
    ]
    missing_answers: Annotated[
        float | None, Field(description="Share of its answers that are missing: unread, unfinished, empty or refused.")
    ]
    above_chance: NotRequired[
        Annotated[
            dict[str, AboveChance],
            Field(description="Accuracy and worst accuracy above chance, where asked for with above_chance=yes."),
        ]
    ]
    question_filter: Annotated[dict[str, Any], Field(description="Which questions of the benchmark were asked.")]
    rank: Annotated[int | None, Field(description="Null in a group of one model.")]
    n: Annotated[dict[str, int | None], Field(description="Metric to over how many questions it is.")]
    intervals: Annotated[dict[str, Interval | None], Field(description="Metric to its 95 % interval.")]
    progress: Progress | None
    cost: Annotated[float | None, Field(description="What a provider charged, as far as it is known.")]


class Leaderboard(Page):
    """A page of the leaderboard: complete evaluations first, in the order asked for."""

    rows: list[LeaderboardRow]
    scope: str
    ranked_by: str
    sort: str
    order: str


class HowAsked(TypedDict):
    """In how many different prompts questions were asked, and what guessing gets right; null until sealed."""

    distinct_prompts_min: int | None
    distinct_prompts_max: int | None
    variants_max: int | None
    orders_only: bool | None
    chance: float | None
    sampled_for: Annotated[str | None, Field(description="The metric that a sample of the questions estimates.")]
    stopped_for: Annotated[str | None, Field(description="The metric that each question is asked until it is decided.")]
    lists_options: Annotated[bool, Field(description="Whether prompts list the options; else they show no order.")]


class EvaluationHeader(HowAsked):
    """What identifies an evaluation, and how it was asked."""

    evaluation_id: int
    model: str
    revision: int
    benchmark: str
    benchmark_version: str
    protocol: str
    shots: int
    variants: str
    replicate: int
    state: str
    complete: bool
    questions: int
    prompts: int
    created_at: Time
    started_at: Time | None
    sealed_at: Time | None


class ListedEvaluation(EvaluationHeader):
    """An evaluation in a list, with its progress."""

    priority: int
    progress: Progress


class EvaluationList(Page):
    """A page of evaluations, newest first."""

    items: list[ListedEvaluation]


class ModelIdentity(TypedDict):
    """Exactly what was loaded. `location` is null where it is a folder on a worker."""

    kind: str
    location: str | None
    commit: str | None
    dtype: str | None
    quantisation: str | None
    weights_digest: str | None
    tokenizer_digest: str | None


class BenchmarkIdentity(TypedDict):
    """Exactly what was asked."""

    content_digest: Digest
    file_digest: Digest
    licence: str | None
    source: str | None


class ShardProvenance(TypedDict):
    """Who scored a slice of an evaluation, when and on what."""

    shard: int
    state: str
    prompts: int
    failures: int
    crashes: int
    claims: int
    error: str | None
    host: str | None
    device: str | None
    claimed_at: Time | None
    finished_at: Time | None
    elapsed_s: float | None
    tokens_naive: int | None
    tokens_computed: int | None
    engine_fingerprint_digest: str | None


class PromptDigests(TypedDict):
    """How many prompts' digests are kept, and one digest over them; null where nothing says what was asked."""

    count: int
    digest: Digest | None


class Tokens(TypedDict):
    """Tokens of all prompts, those that were computed, and those that shared beginnings and copies saved."""

    naive: int | None
    computed: int | None
    saved: int | None


class CopySource(TypedDict):
    """A sealed evaluation that results were copied from; its number is null where this registry does not hold it."""

    seal: Digest
    evaluation: int | None
    predictions: int
    withdrawn: bool


class Copies(TypedDict):
    """Results that were copied from other evaluations. copied_by: evaluations that hold copies of these results."""

    predictions: int
    sources: list[CopySource]
    withdrawn: Annotated[bool, Field(description="A source was withdrawn since.")]
    copied_by: list[int]


class Withdrawn(TypedDict):
    """That an evaluation no longer counts, and why. superseded_by: the seal of the one that stands for it."""

    kind: Annotated[str, Field(json_schema_extra={"enum": ["withdrawn", "superseded"]})]
    reason: str
    actor: str
    at: Time
    superseded_by: Digest | None
    superseding_evaluation: int | None


class PlaceInChain(TypedDict):
    """The link that holds an evaluation's seal."""

    position: int
    digest: Digest
    previous: Digest
    labels: Digest | None
    at: Time


class Link(PlaceInChain):
    """A link of the chain: `digest` is taken over all else, and through `previous` over every link before."""

    kind: Annotated[str, Field(json_schema_extra={"enum": ["seal", "withdrawal", "snapshot", "errata", "reading"]})]
    subject: Annotated[Digest, Field(description="The seal, the snapshot's digest, or that of a withdrawal.")]


class Signature(TypedDict):
    """A signed head of the chain. statement: what was signed; signature, timestamp: base64; public_key: PEM."""

    position: int
    head: Digest
    at: Time
    key: Annotated[Digest, Field(description="SHA-256 of the public key in DER.")]
    public_key: str
    statement: str
    signature: str
    timestamp: Annotated[str | None, Field(description="An authority's answer (RFC 3161); null: none was asked.")]


class SignaturePage(Page):
    """Signatures of the chain's head, the newest first."""

    items: list[Signature]


class ChainPage(Page):
    """A page of the chain, the newest link first. head: the digest of the last link, which stands for all.

    signature: the newest; null where nothing was signed.
    """

    head: Digest | None
    signature: Signature | None
    items: list[Link]


class ProvenanceDifference(TypedDict):
    """What differs between two provenances, and what does not: group to fact to value, or to both values."""

    evaluations: list[int]
    same: dict[str, dict[str, Any]]
    different: dict[str, dict[str, list[Any]]]


class Flip(TypedDict):
    """A prompt with different answers in two runs: option ordinals, null for no valid answer."""

    question_id: int
    external_id: str
    variant: int
    shown: list[int]
    one: int | None
    other: int | None
    one_probabilities: list[float] | None
    other_probabilities: list[float] | None


class LargestChange(TypedDict):
    """The prompt whose probabilities changed most."""

    change: float
    external_id: str
    variant: int


class Changes(TypedDict):
    """How many prompts' largest change of a probability is within which power of ten; "0": more than a tenth."""

    none: int
    up_to: dict[str, int]


class MetricChange(TypedDict):
    """A metric of both evaluations, over all questions."""

    metric: str
    one: float | None
    other: float | None
    change: float | None
    interval: list[float] | None


class Drift(TypedDict):
    """What changed from one evaluation to another of the same prompts on the same model."""

    evaluations: list[int]
    prompts: int
    flipped: int
    flips: list[Flip]
    largest_change: float | None
    largest_change_at: LargestChange | None
    changes: Changes
    with_probabilities: int
    texts_differ: int
    states_differ: int
    metrics: list[MetricChange]
    engine: Annotated[dict[str, list[Any]], Field(description="Facts that differ in what scored them.")]


class Provenance(TypedDict):
    """Where an evaluation's numbers come from. Engine fingerprints stand once, under their digest."""

    specification: dict[str, Any]
    specification_digest: Digest
    model: ModelIdentity
    benchmark: BenchmarkIdentity
    protocol_digest: Digest
    variant_set_digest: Digest
    seeds: Annotated[dict[str, int | str], Field(description="What was drawn, to its seed.")]
    prompts: PromptDigests
    tokens: Tokens
    metrics_computed_by: Annotated[
        list[str], Field(description="Versions of the code, with their commits, that computed its metrics.")
    ]
    copies: Copies
    withdrawals: list[Withdrawn]
    seal_version: int | None
    chain: PlaceInChain | None
    requester: str | None
    conflict_of_interest: str | None
    seal: Digest | None
    mixed_engines: bool
    engine_fingerprints: dict[str, dict[str, Any]]
    shards: list[ShardProvenance]


class RepeatNoise(TypedDict):
    """How often two answers to a question differ when nothing changed, and when only the order did: shares of pairs.

    order_effect: order minus repeat disagreement, over the `questions` that have both kinds of pairs; `interval` is its
    own. Intervals are 95 %, from one bootstrap over questions; null where none is stated.
    """

    evaluations: Annotated[list[int], Field(description="The evaluation with its replicates: whose orders these are.")]
    noise_from: Annotated[list[int], Field(description="The evaluations whose repeats these are; empty: none.")]
    repeat_disagreement: float | None
    order_disagreement: float | None
    order_effect: float | None
    repeat_pairs: int
    order_pairs: int
    repeat_questions: int
    order_questions: int
    questions: int
    interval: Interval | None
    repeat_interval: Interval | None
    order_interval: Interval | None
    resamples: int
    seed: int


class AxisEstimate(TypedDict):
    """A value with its 95 % interval over questions; null where none is stated."""

    value: float
    interval: Interval | None


class AxisLevel(TypedDict):
    """A level of an axis, such as a rotation or a template, with the accuracy under it over all other axes."""

    level: int
    name: str
    accuracy: float


class AxisEffect(TypedDict):
    """What an axis of the variants does to the accuracy. kind: of variants; null for replicates."""

    axis: str
    kind: str | None
    levels: list[AxisLevel]
    lowest_accuracy: float
    highest_accuracy: float
    moves: Annotated[
        AxisEstimate, Field(description="Standard deviation of the accuracy over its levels, all else as it is.")
    ]
    fluctuation_rate: AxisEstimate
    worst_accuracy: AxisEstimate
    disagreement: AxisEstimate
    shared: Annotated[AxisEstimate, Field(description="Variance component that all questions share.")]
    by_question: Annotated[AxisEstimate, Field(description="Variance component of the axis with the questions.")]


class Axes(TypedDict):
    """What moves an evaluation's accuracy: each axis of its variants, and its replicates.

    components: variance components of single answers, by the axes they are of. left_out: questions with other cells.
    """

    evaluations: list[int]
    questions: int
    left_out: int
    cells: int
    accuracy: float
    axes: list[AxisEffect]
    components: dict[str, float]
    resamples: int
    seed: int


class WordingQuantile(TypedDict):
    """A quantile of the accuracy over wordings. standard_error, low, high: null where it is exact."""

    level: float
    value: float
    standard_error: float | None
    low: float | None
    high: float | None


class WordingLevel(AxisLevel):
    """A wording with its accuracy, estimated where not all cells were asked, and how many answers it got."""

    answers: int


class Wordings(TypedDict):
    """The accuracy over the wordings of an evaluation. asked_share: of the cells of all questions."""

    evaluations: list[int]
    axis: str
    questions: int
    left_out: int
    cells: int
    asked_share: float
    exact: bool
    levels: list[WordingLevel]
    quantiles: list[WordingQuantile]
    draws: int | None
    seed: int | None


class Cost(TypedDict):
    """What an evaluation's answers cost, in `currency`, and how many were refused, filtered or cut off.

    cost: null where unknown; cost_unresolved: the most that calls of unknown cost can have cost beside it. models: the
    names under which the model answered, with how many prompts each answered; several: it changed in between.
    """

    calls: int
    answered: int
    failed: int
    unresolved: int
    complete: int
    cut_off: int
    refused: int
    filtered: int
    prompt_tokens: int | None
    cached_tokens: int | None
    written_tokens: int | None
    reasoning_tokens: int | None
    cost: float | None
    cost_unresolved: float
    unpriced: int
    served_models: int
    system_fingerprints: int
    models: list["ServedModel"]
    currency: str


class ServedModel(TypedDict):
    """A name under which a model answered. first, last: when."""

    served_model: str | None
    system_fingerprint: str | None
    prompts: int
    first: Time | None
    last: Time | None


class EvaluationDocument(EvaluationHeader):
    """One evaluation with progress, metrics and provenance. noise: null where no prompt was asked twice.

    cost: null where no provider served the model.
    """

    cost: Cost | None
    progress: Progress
    metrics: MetricValues
    noise: RepeatNoise | None
    axes: Annotated[Axes | None, Field(description="Null where only orders were varied, or not all cells were asked.")]
    wordings: Annotated[Wordings | None, Field(description="Null where only orders were varied.")]
    clustered: Annotated["Clustered | None", Field(description="Null where every question stands for itself.")]
    scopes: list[ScopeMetric]
    provenance: Provenance


class QuestionResult(QuestionMetricsColumns):
    """What an evaluation made of a question: metrics and the counts behind them. `stored` below `expected`: not scored.

    variants: those with exactly the question's own options; valid, correct: with a valid and with the right answer;
    agreeing: with the answer of the first.
    """

    variants: int
    valid: int
    correct: int
    agreeing: int


class EvaluationQuestion(QuestionResult):
    """A question of an evaluation with its text."""

    text: str


class EvaluationQuestions(Page):
    """A page of an evaluation's questions, in the benchmark's order. `counts`: how many each filter keeps."""

    items: list[EvaluationQuestion]
    counts: dict[str, int]


class Prediction(PredictionColumns):
    """One prompt's result. `shown[p]` is the option at position p; inserted options are negative."""


class PredictionPage(TypedDict):
    """Predictions by question and variant, from `cursor` on. `next_cursor` is null on the last page."""

    items: list[Prediction]
    limit: int
    next_cursor: str | None
    next: str | None


class Question(TypedDict):
    """A benchmark's question. `answer` is the ordinal of the right option."""

    question_id: int
    external_id: str
    ordinal: int
    subject: str | None
    context: str | None
    text: str
    answer: int
    refers_to_options: bool
    sorted_numeric: bool
    benchmark: str
    benchmark_version: str
    benchmark_version_id: int
    options: list[str]


class EvaluationQuestionDocument(TypedDict):
    """A question as one evaluation asked it, with its predictions by variant."""

    evaluation_id: int
    question: Question
    expected: int
    inserted: Annotated[dict[str, str], Field(description="Inserted option (negative ordinal) to its text.")]
    predictions: list[Prediction]


class QuestionOutcome(EvaluationHeader):
    """What one evaluation made of a question."""

    priority: int
    outcome: QuestionResult


class QuestionDocument(Page):
    """A question and its outcome in every evaluation that asks it, newest first."""

    question: Question
    items: list[QuestionOutcome]


# What is registered


class ListedModel(TypedDict):
    """A model, with its revisions and public evaluations counted."""

    model: str
    family: str | None
    developer: str | None
    parameters: int | None
    licence: str | None
    released: str | None
    url: str | None
    created_at: Time
    revisions: int
    evaluations: int


class ModelList(TypedDict):
    """Every model, by name."""

    items: list[ListedModel]


class ModelRevision(TypedDict):
    """One set of weights with one tokenizer in one precision."""

    revision: int
    kind: str
    location: str | None
    requested_revision: str | None
    commit: str | None
    dtype: str | None
    quantisation: str | None
    adapter: str | None
    adapter_commit: str | None
    adapter_merged: bool | None
    base_digest: str | None
    adapter_digest: str | None
    weights_digest: str | None
    tokenizer_digest: str | None
    chat_template_digest: str | None
    state: str
    created_at: Time


class ModelDocument(TypedDict):
    """A model with its revisions, newest first, and its rows of the leaderboard."""

    model: str
    family: str | None
    developer: str | None
    parameters: int | None
    licence: str | None
    released: str | None
    url: str | None
    created_at: Time
    revisions: list[ModelRevision]
    evaluations: list[LeaderboardRow]


class BenchmarkVersion(TypedDict):
    """One content of a benchmark."""

    benchmark: str
    benchmark_version_id: int
    version: str
    content_digest: Digest
    file_digest: Digest
    language: str
    split: str
    licence: str | None
    source: str | None
    visibility: str
    shuffle_seed: int | None
    questions: int
    few_shot_examples: int
    created_at: Time
    evaluations: int


class BenchmarkList(TypedDict):
    """Every benchmark version that may be seen, newest first within each name."""

    items: list[BenchmarkVersion]


class BenchmarkDocument(TypedDict):
    """A benchmark's public versions, newest first, and its rows of the leaderboard."""

    benchmark: str
    versions: list[BenchmarkVersion]
    evaluations: list[LeaderboardRow]


class ItemEstimate(TypedDict):
    """A number over models, with its 95 % interval."""

    value: float
    interval: Interval


class ItemReason(TypedDict):
    """Why a question is worth a second look, and what was found. A reason proves nothing."""

    reason: Annotated[str, Field(description="A name, such as other_option; more may be added.")]
    found: Annotated[str, Field(description="What was found, as a sentence.")]


class Item(TypedDict):
    """A question through the models that answered it. Options are ordinals of the question's own order, from 0.

    difficulty: the mean over models of the share of its prompts that they have right. discrimination: correlation of
    that share with the sum of all others; null where it does not vary. lead: the share of weighted votes for the rival,
    the most voted option that is not the answer, less that for the answer.
    """

    rank: int
    question_id: int
    external_id: str
    subject: str | None
    difficulty: ItemEstimate
    discrimination: ItemEstimate | None
    answer: int
    rival: int
    lead: float
    latent_key: Annotated[int, Field(description="The option that is the likeliest key but the stated one.")]
    log_odds: Annotated[
        float, Field(description="How much likelier the answers are under another key than under the stated one.")
    ]
    suspicion: Annotated[float, Field(description="What ranks items: lead − 0.3 · discrimination + 0.1 · log_odds.")]
    reasons: list[ItemReason]


class Reliability(TypedDict):
    """Cronbach's alpha over models. kr20: every score is 0 or 1, so that alpha is KR-20."""

    alpha: float
    interval: Interval | None
    kr20: bool


class WayOfAsking(TypedDict):
    """How a version was asked, of how many models; `evaluation` is one of them, and names the way."""

    evaluation: int
    protocol: str
    shots: int
    variants: str
    part: Annotated[str | None, Field(description="Which part of the benchmark; null: all of it.")]
    models: int


class ItemList(Page):
    """The questions of a benchmark version, those with a reason for a second look first. Null below models_needed."""

    benchmark: str
    version: str
    way: WayOfAsking | None
    ways: list[WayOfAsking]
    models: Annotated[int, Field(description="Models whose answers were read; of very many, a part.")]
    models_needed: int
    questions: int
    reliability: Reliability | None
    queue: Annotated[int, Field(description="How many of the first items have a reason for a second look.")]
    items: list[Item]


class Erratum(TypedDict):
    """What is said of a question, by its id in the benchmark's file. Answers are ordinals of its options, from 0."""

    question: str
    status: Annotated[str, Field(description="`disputed`, `wrong-key` or `corrected-key`.")]
    published_answer: int
    answer: Annotated[int | None, Field(description="The right option, of a corrected key.")]
    note: str
    actor: str
    at: str


class ErrataDocument(TypedDict):
    """A version of a benchmark's errata, as its file has it. `digest` is over format, content_digest and errata."""

    format: str
    content_digest: Digest
    errata: list[Erratum]
    benchmark: str
    version: str
    errata_version: int
    digest: Digest
    note: str
    actor: str
    at: str


class ErrataList(TypedDict):
    """A version of a benchmark's errata, null where nothing was ever said, and the numbers of all versions."""

    errata: ErrataDocument | None
    versions: list[int]


class Protocol(TypedDict):
    """How models are asked and their answers read. `digest` names the definition for good."""

    protocol: str
    shots: int
    digest: Digest
    definition: dict[str, Any]
    created_at: Time


class ProtocolList(TypedDict):
    """Every protocol that the registry holds, by name, shots and age."""

    items: list[Protocol]


class PublishedResult(PublishedColumns):
    """A number that a paper prints, as printed. `registry_metric`: ours of the same meaning, or null."""


class PublishedList(Page):
    """A page of printed numbers, in the order of their tables."""

    items: list[PublishedResult]


# The queue


class Overall(TypedDict):
    """All that is queued or running, together."""

    evaluations: int
    prompts: int
    prompts_done: int
    shards_failed: int
    prompts_per_second: float
    seconds_left: float | None
    tokens_naive: int
    tokens_computed: int
    tokens_saved: int


class LiveWorker(TypedDict):
    """A worker that has shown a sign of life lately."""

    host: str
    device: str
    queues: list[str] | None
    versions: dict[str, str]
    loaded_model: str | None
    loaded_revision: int | None
    scoring: bool
    started_at: Time
    last_seen: Time


class Queue(Page):
    """A page of unfinished evaluations, newest first, and who works."""

    overall: Overall
    queues_without_worker: list[str]
    workers: list[LiveWorker]
    differing_versions: Annotated[
        dict[str, dict[str, int]], Field(description="Package to version to workers, where they differ.")
    ]
    items: list[ListedEvaluation]


# Suites and boards


class Named(TypedDict):
    """A suite by name and version."""

    name: str
    version: int


class NamedSuite(Named):
    """A suite by name, version and digest."""

    digest: Digest


class ListedSuite(NamedSuite):
    """A suite: what is asked of every model."""

    title: str
    created_at: Time


class SuiteList(TypedDict):
    """The newest version of every suite, by name."""

    items: list[ListedSuite]


class SuiteDocument(ListedSuite):
    """A suite with its definition, as its file has it."""

    definition: dict[str, Any]


class BoardDeprecation(TypedDict):
    """Why a board is deprecated, since when, and which board to use instead; null: none, or none that you may see."""

    reason: str
    at: Time
    successor: str | None


class DeprecatedBoard(TypedDict):
    """A board and whether it is deprecated."""

    board: str
    deprecated: BoardDeprecation | None


class ListedBoard(TypedDict):
    """A board: a suite on certain benchmarks, with the columns to show."""

    board: str
    version: int
    digest: Digest
    title: str
    suite: Named
    columns: list[str]
    url: str
    deprecated: BoardDeprecation | None


class BoardList(TypedDict):
    """The newest version of every public board, by name."""

    items: list[ListedBoard]


class BoardColumn(TypedDict):
    """A column of a board: a metric on a set of variants."""

    name: str
    metric: str
    variants: str
    protocol: str | None
    better: str
    definition_version: int
    errata: NotRequired[Annotated[str, Field(description="By which keys, where not as published.")]]


class BoardErrata(TypedDict):
    """Which errata of a benchmark a board's keys were taken from; null: nothing was said of its questions."""

    benchmark: str
    version: str
    errata_version: int | None
    digest: Digest | None


class BoardEntry(TypedDict):
    """One evaluation that a board asks of every model."""

    task: str
    benchmark: str
    version: str
    content_digest: Digest
    protocol: str
    shots: int
    protocol_digest: Digest
    variants: str
    question_filter: dict[str, Any]
    questions: int


class BoardEvaluation(TypedDict):
    """The sealed evaluation behind an entry of a board. Old snapshots say nothing of its engines and copies."""

    evaluation: int
    seal: Digest
    replicate: int
    mixed_engines: NotRequired[bool]
    copies_withdrawn: NotRequired[bool]


class BoardNeighbour(TypedDict):
    """A model against the one ranked next above it. Null: the two are not compared, as on few questions.

    `told_apart` holds for all pairs of the column at once, `p_holm` is corrected for all of them, `p_value` for none.
    """

    model: str
    revision: int
    difference: float
    standard_error: float | None
    p_value: float | None
    p_holm: float | None
    told_apart: bool


class BoardEstimate(TypedDict):
    """What an estimate rests on: `asked` `of` so many questions, by so many prompts."""

    asked: int
    of: int
    prompts: int


class BoardValue(TypedDict):
    """A model's value in one column. Models of one `tier` are not told apart; ranks wait until a row is complete.

    `estimated`: the value is an estimate from a sample of the questions; it has no rank, and `rank_interval` are those
    that its interval allows among the ranked models.

    `rank_interval` and `tier` are of this model for itself, `all_rank_interval` and `all_tier` of all models at once.
    Where questions belong together, `clusters` are how many independent groups they are, `cluster_interval` and the
    ranks are over resampled clusters, and `design_effect` is how many times the variance that makes.
    """

    value: float | None
    n: int
    interval: Interval | None
    clusters: NotRequired[int]
    cluster_interval: NotRequired[Interval | None]
    design_effect: NotRequired[float | None]
    unknown: NotRequired[Annotated[str, Field(description="Why it cannot be said under errata.")]]
    rank: int | None
    rank_interval: RankInterval | None
    tier: int | None
    all_rank_interval: RankInterval | None
    all_tier: int | None
    above: NotRequired[BoardNeighbour | None]
    estimated: NotRequired[BoardEstimate]


class BoardPairs(TypedDict):
    """All pairs of a column's ranked models, compared at once; `neighbours` are next to each other in the ranking.

    A pair is told apart where its difference is more than about `critical_value` standard errors. `standard_error` is
    that of the median pair's difference.
    """

    models: int
    pairs: int
    pairs_told_apart: int
    neighbours: int
    neighbours_told_apart: int
    critical_value: float | None
    standard_error: float | None


class SelectedRow(TypedDict):
    """A model revision of a selection. `evaluations` runs along the entries; null: not sealed yet."""

    model: str
    revision: int
    identity: dict[str, Any]
    family: str | None
    parameters: int | None
    dtype: str | None
    quantisation: str | None
    complete: bool
    evaluations: list[BoardEvaluation | None]
    values: Annotated[dict[str, BoardValue], Field(description="Column to value.")]


class BoardRow(SelectedRow):
    """A model revision on a board. `evaluations` runs along the board's entries; null: not sealed yet.

    cost: what providers charged for them, as far as it is known. tokens_per_answer: of thought and answer, the mean.
    """

    cost: float | None
    tokens_per_answer: float | None
    conflict_of_interest: Annotated[
        str | None, Field(description="As stated for its evaluations: none, or what it is; null: not stated for all.")
    ]


class Bootstrap(TypedDict):
    """How the intervals of a board were drawn."""

    resamples: int
    seed: int
    confidence: float


class Unranked(TypedDict):
    """A model that a column does not rank, why, and the commands that ask what is missing; column null: every one."""

    model: str
    revision: int
    column: str | None
    reason: str
    commands: list[str]


class NamedRevision(TypedDict):
    """A model revision on a board."""

    model: str
    revision: int


class BoardOtherwise(TypedDict):
    """What a choice would change: who is first then, how many models' ranks change, and by how much at most."""

    choice: str
    first: list[NamedRevision]
    changed: int
    largest: int


class BoardRemoval(TypedDict):
    """So many questions, of all, are enough to leave out for this model to be level with the first."""

    questions: int
    of: int
    model: str
    revision: int


class BoardContamination(TypedDict):
    """What an evaluation of a board shows of contamination: evidence, never a verdict, as of an evaluation alone.

    `p_value` is of this evaluation for itself. `p_holm` is corrected for all evaluations of the board, and `outlier`
    goes by it.
    """

    evaluation: int
    seal: Digest
    model: str
    revision: int
    benchmark: str
    variants: str
    questions: int
    flagged: int
    other: int
    level: float
    seed: int
    p_value: float
    p_holm: float
    outlier: bool
    why: None
    measures: dict[str, "OrderMeasure"]


class BoardWithoutModel(TypedDict):
    """What leaving out a model would change: who is first then, and how many others share their tiers with others.

    `tiers` are of each model for itself, `all_tiers` of all at once; null without intervals.
    """

    model: str
    revision: int
    first: list[NamedRevision]
    tiers: int | None
    all_tiers: int | None


class BoardWithoutOrders(TypedDict):
    """The fewest orders without which another model is first or level; `of` all orders, up to `tried` were left out.

    Both lists are empty where none of these changes who is first.
    """

    orders: list[str]
    first: list[NamedRevision]
    of: int
    tried: int


class BoardTiersWithoutOrders(TypedDict):
    """The fewest orders without which models of the first tiers, each for itself, share them with others.

    `changed`: how many of the first models do; empty and 0 where none of these changes a tier.
    """

    orders: list[str]
    changed: int
    of: int
    tried: int


class BoardFragility(TypedDict):
    """What would rank a column's models otherwise; `removal`: of means over questions.

    `without_models` has the first models, the best first. `without_orders` is of metrics of answers in each order.
    """

    otherwise: list[BoardOtherwise]
    without_models: NotRequired[list[BoardWithoutModel]]
    without_orders: NotRequired[BoardWithoutOrders | None]
    tiers_without_orders: NotRequired[BoardTiersWithoutOrders | None]
    removal: BoardRemoval | None


class BoardRules(TypedDict):
    """What a board asks of submissions; null and empty lists: not limited. `sentences`: the enforced ones in words."""

    text: str
    accounts: list[str]
    per_account: int | None
    per_model: int | None
    per_day: int | None
    sources: list[str]
    dtypes: list[str]
    same_suite: bool
    statement: bool
    embargo_days: int | None
    anonymous: bool
    sentences: list[str]


class ScheduleRun(TypedDict):
    """What a schedule asked in one period. Null: nothing was queued, as `problem` says, or it is not compared yet.

    `better` and `worse` are questions with more and fewer right answers, `flipped` prompts with another answer.
    """

    period: int
    evaluation: int | None
    begun_at: Time
    compared_at: Time | None
    questions: int | None
    better: int | None
    worse: int | None
    flipped: int | None
    p_value: Annotated[float | None, Field(description="Of the exact sign test over questions.")]
    level: Annotated[float | None, Field(description="At which this run is tested; those of all runs sum to 0.05.")]
    moved: bool | None
    problem: str | None


class Schedule(TypedDict):
    """An evaluation that is asked again every so many days, with its runs, the newest first."""

    schedule: int
    evaluation: int
    model: str
    revision: int
    benchmark: str
    protocol: str
    variants: str
    every_days: int
    questions: int
    budget: float | None
    created_at: Time
    ended_at: Time | None
    level: float
    moved: bool
    runs: list[ScheduleRun]


class ScheduleList(TypedDict):
    """Every schedule, the newest first."""

    items: list[Schedule]


class Board(TypedDict):
    """A board as it stood at a time. `digest` names it for good, `sql` reads the same rows from the database.

    currency: of what providers charged; null: none charged anything. submissions: its rules; null: it sets none.
    """

    snapshot_version: int
    board: str
    board_version: int
    board_digest: Digest
    suite: NamedSuite
    title: str
    text: str
    sort: str
    columns: list[BoardColumn]
    entries: list[BoardEntry]
    bootstrap: Bootstrap
    errata: NotRequired[Annotated[list[BoardErrata], Field(description="Absent where all is as published.")]]
    sealed_evaluations: int
    withdrawals: NotRequired[int]
    together: NotRequired[Annotated[dict[str, BoardPairs], Field(description="Column to all of its pairs.")]]
    fragile: NotRequired[Annotated[dict[str, BoardFragility], Field(description="Column to what would change it.")]]
    weights: NotRequired[Annotated[dict[str, int], Field(description="Task to how much it counts, where not 1.")]]
    models: NotRequired[Annotated[dict[str, Any], Field(description="Which models it takes; absent: all.")]]
    contamination: NotRequired[
        Annotated[list[BoardContamination], Field(description="Only of boards that state it; the most extreme first.")]
    ]
    rows: list[BoardRow]
    currency: str | None
    as_of: Time
    digest: Digest
    chance: Annotated[dict[str, float], Field(description="Column of accuracy to what guessing gives there.")]
    unranked: list[Unranked]
    submissions: BoardRules | None
    deprecated: BoardDeprecation | None
    permalink: str
    sql: str


class SelectedBoard(TypedDict):
    """Tasks, weights, columns and models that were chosen from a board, with ranks and tiers of these alone.

    digest: the SHA-256 of `selection`, which is canonical JSON. snapshot: what it was chosen from. url: its page.
    """

    board: str
    snapshot: Digest
    as_of: Time
    selection: str
    digest: Digest
    sort: str
    columns: list[BoardColumn]
    entries: list[BoardEntry]
    weights: Annotated[dict[str, int], Field(description="Task to how much it counts.")]
    bootstrap: Bootstrap
    together: Annotated[dict[str, BoardPairs], Field(description="Column to all of its pairs.")]
    rows: list[SelectedRow]
    chance: Annotated[dict[str, float], Field(description="Column of accuracy to what guessing gives there.")]
    unranked: list[Unranked]
    url: str


class ListedSnapshot(TypedDict):
    """A board as it stood at a time: where to find it."""

    as_of: Time
    digest: Digest
    board_version: int
    url: str
    signature: Annotated[Signature | None, Field(description="The first that covers it; null: none does yet.")]


class SnapshotList(TypedDict):
    """Every snapshot of a board, newest first."""

    items: list[ListedSnapshot]


class BoardEvent(TypedDict):
    """Something that happened to a board, in a sentence. models: those that it is about."""

    kind: Annotated[
        str,
        Field(
            json_schema_extra={
                "enum": [
                    "published",
                    "redefined",
                    "recomputed",
                    "added",
                    "completed",
                    "removed",
                    "withdrawn",
                    "superseded",
                    "rescored",
                    "corrected",
                    "deprecated",
                    "reinstated",
                    "moved",
                ]
            }
        ),
    ]
    text: str
    models: list[str]


class BoardChange(TypedDict):
    """What a snapshot brought. link: its position in the chain; snapshot: null where none was changed."""

    at: Time
    link: int | None
    snapshot: Digest | None
    events: list[BoardEvent]


class BoardChangelog(TypedDict):
    """What happened to a board, newest first."""

    board: str
    changes: list[BoardChange]


# What was written


class RegisteredModel(TypedDict):
    """A model revision that was asked for. `added`: whether it is new; usable once its state is `ready`."""

    model: str
    revision: int
    kind: str
    state: str
    dtype: str | None
    quantisation: str | None
    url: str
    added: bool


class ImportedBenchmark(TypedDict):
    """A benchmark version that was sent. `imported`: whether it is new."""

    benchmark: str
    version: str
    visibility: str
    questions: int
    few_shot_examples: int
    content_digest: Digest
    imported: bool


class ChangedVisibility(TypedDict):
    """Who may see a benchmark from now on, and in which versions that was set."""

    benchmark: str
    visibility: str
    versions: list[str]


class AskedEvaluations(TypedDict):
    """Every evaluation that was asked for, and those of them that are new."""

    evaluations: list[int]
    new: list[int]


class EvaluationState(TypedDict):
    """How an evaluation stands after it was moved."""

    evaluation: int
    state: str


class ImportedOutputs(TypedDict):
    """The evaluation that outputs became. `stated`: what the file states as its score, beside ours."""

    evaluation: int
    stated: dict[str, Any] | None


class DistinctPrompts(TypedDict):
    """Fewest and most different prompts that show a question; null where nothing is stored."""

    min: int | None
    max: int | None


class ClusteredInterval(TypedDict):
    """A metric's 95 % interval over resampled clusters, and how many times the variance that makes."""

    interval: Interval | None
    design_effect: float | None


class Clustered(TypedDict):
    """Intervals where questions belong together, such as those on one passage; `largest`: questions of one cluster."""

    questions: int
    clusters: int
    largest: int
    metrics: dict[str, ClusteredInterval]


class OrderMeasure(TypedDict):
    """A mean over questions in their published order, what any other order is expected to give, and a p-value.

    Null: it is the same in every order.
    """

    label: str
    observed: float
    expected: float
    p_value: float | None


class Regularity(TypedDict):
    """Whether the options of a benchmark stand in order: the share of questions in which, and in any order."""

    questions: int
    sorted: float
    expected: float
    p_value: float


class Contamination(TypedDict):
    """Whether the published order is an outlier among the orders that were asked: evidence, never a verdict.

    `p_value` is exact for all measures together, one-sided; `outlier` whether it is at most `level`, as it is for at
    most that share of models that never saw the benchmark. Both are null, and `why` says why, where the orders that
    were asked cannot tell, or where the published order is regular itself (`regularities`). `flagged` questions are
    left out because of their options, `other` ones because of the orders they were asked in.
    """

    evaluation: int
    questions: int
    flagged: int
    other: int
    level: float
    seed: int
    p_value: float | None
    outlier: bool | None
    regularities: dict[str, Regularity | None]
    why: str | None
    measures: Annotated[dict[str, OrderMeasure], Field(description="`accuracy` and, where known, `key_logprob`.")]


class SampleLook(TypedDict):
    """What was known after so many questions. information: the share of what the precision needs."""

    questions: int
    value: float
    low: float
    high: float
    information: float


class SampledMetric(TypedDict):
    """What an evaluation with a stated precision has found. history: other models whose answers narrow the interval.

    questions: of the benchmark or the part of it; asked: so far; at_most: asked at most. reached: the interval is as
    narrow as was asked for. All intervals hold together with the confidence.
    """

    metric: str
    precision: float
    confidence: float
    history: int
    questions: int
    asked: int
    at_most: int
    reached: bool
    until: Annotated[str | None, Field(description="What ends it before, as soon as it is known.")]
    decided: Annotated[bool | None, Field(description="Whether that is known.")]
    looks: list[SampleLook]


class DecidedRound(TypedDict):
    """How many questions were decided by so many prompts each."""

    prompts: int
    questions: int


class StoppedWhenDecided(TypedDict):
    """What an evaluation that asks each question only until `metric` is decided has come to.

    history: other models from whose answers the order of asking was learnt. decided: of `questions`. prompts: asked so
    far; prompts_complete: what asking every variant would take.
    """

    metric: str
    history: int
    questions: int
    decided: int
    prompts: int
    prompts_complete: int
    by_round: list[DecidedRound]


class AppliedErrata(TypedDict):
    """Which errata metrics are under. unknown: metric to why it cannot be said without asking the model again."""

    treatment: str
    errata_version: int
    digest: Digest
    unknown: dict[str, str]


class EvaluationMetrics(TypedDict):
    """An evaluation's metrics; `scored` of its `questions` have all their variants. per_question: where asked for.

    noise: over all questions; null where no prompt was asked twice.
    """

    evaluation: int
    metrics: MetricValues
    intervals: Annotated[dict[str, Interval | None], Field(description="Metric to its 95 % interval, once sealed.")]
    questions: int
    scored: int
    complete: bool
    distinct_prompts: DistinctPrompts
    noise: RepeatNoise | None
    asked: Annotated[str | None, Field(description="In how many orders or variants, in words.")]
    chance: Annotated[float | None, Field(description="Accuracy that guessing gives over all questions.")]
    clustered: Annotated[Clustered | None, Field(description="Null where every question stands for itself.")]
    sample: Annotated[
        SampledMetric | None, Field(description="Of an evaluation that asks only as much as a precision needs.")
    ]
    stopping: Annotated[
        StoppedWhenDecided | None, Field(description="Of an evaluation that asks each question until it is decided.")
    ]
    undefined: Annotated[dict[str, str], Field(description="Metric to why it has no value, where it has none.")]
    errata: Annotated[AppliedErrata | None, Field(description="Null as published, and where there are none.")]
    per_question: NotRequired[dict[str, MetricValues]]


class Verification(TypedDict):
    """What does not match of a sealed evaluation; `ok`: nothing. `questions`: those with a wrong leaf."""

    evaluation: int
    seal: Digest | None
    seal_version: int | None
    ok: bool
    problems: list[str]
    questions: list[str]


class ImportedSuite(TypedDict):
    """A suite that was sent. `new`: whether it is a new version."""

    suite: str
    version: int
    digest: Digest
    new: bool


class ImportedBoard(TypedDict):
    """A board that was sent. `new`: whether it is a new version."""

    board: str
    version: int
    digest: Digest
    new: bool


class EstimatedEvaluation(TypedDict):
    """What one evaluation would cost. `evaluation`: one that is there already. `reason`: why something is null.

    cost, cost_limit: what a provider would charge, as earlier answers came out and at most; 0 for any other model.
    """

    evaluation: int | None
    benchmark: str
    variants: str
    protocol: str
    shots: int
    questions: int
    prompts: int
    prompts_left: int
    tokens_naive: int | None
    tokens_shared: int | None
    seconds: float | None
    reason: str | None
    cost: float | None
    cost_limit: float | None


class SampledCost(TypedDict):
    """Of an evaluation with a stated precision: prompts of all questions, and those that known models needed."""

    prompts_complete: int
    prompts_expected: int | None


class EstimatedOfModel(EstimatedEvaluation):
    """The same of a model that is registered. `prompts_sampled`: how many were tokenised."""

    model: str
    revision: int
    prompts_sampled: int
    sample: SampledCost | None


class Estimate(TypedDict):
    """What some evaluations would cost together; null where a part is not known. `workers`: how many are alive."""

    estimates: list[EstimatedOfModel]
    prompts: int
    prompts_left: int
    tokens_naive: int | None
    tokens_shared: int | None
    seconds: float | None
    cost: float | None
    cost_limit: float | None
    currency: str | None
    workers: int


# Submissions and webhooks


class SubmittedModel(TypedDict):
    """A model as it was asked for. `location`: on the hub; `endpoint`: the name of one."""

    name: str
    kind: str
    location: NotRequired[str]
    endpoint: NotRequired[str]
    revision: str | None
    dtype: str | None


class EmbargoedResult(TypedDict):
    """A sealed evaluation that only its submitter and maintainers see for now. `metrics`: over all of its questions."""

    evaluation: int
    benchmark: str
    variants: str
    metrics: dict[str, float | None]


class Submission(TypedDict):
    """A request to run a test suite on a model. `revision`: what was registered; `problem`: why it failed."""

    submission: int
    state: str
    suite: str
    model: SubmittedModel
    note: str | None
    conflict_of_interest: str | None
    embargo_until: Time | None
    anonymous: bool
    requester: str
    created_at: Time
    decided_by: str | None
    decided_at: Time | None
    reason: str | None
    revision: str | None
    revision_state: str | None
    evaluations: list[int]
    embargoed: Annotated[
        list[EmbargoedResult],
        Field(description="Sealed evaluations under embargo, on benchmarks that the reader may see."),
    ]
    finished_at: Time | None
    problem: str | None


class SubmissionList(Page):
    """A page of submissions: those that wait for a decision first, then the newest."""

    items: list[Submission]


class SubmissionEstimate(TypedDict):
    """What a submission would cost. `problem`: why it could not be queued; then nothing else is known.

    currency: of what a provider would charge; null: none is asked.
    """

    estimates: list[EstimatedEvaluation]
    questions: NotRequired[int]
    prompts: NotRequired[int]
    prompts_left: NotRequired[int]
    tokens_naive: NotRequired[int | None]
    tokens_shared: NotRequired[int | None]
    seconds: NotRequired[float | None]
    cost: NotRequired[float | None]
    cost_limit: NotRequired[float | None]
    currency: NotRequired[str | None]
    workers: NotRequired[int]
    problem: str | None


class Webhook(TypedDict):
    """A URL that is sent notices. `kinds`: which; null: all."""

    webhook: int
    url: str
    kinds: list[str] | None
    created_at: Time


class NewWebhook(Webhook):
    """A webhook with the secret that signs what is sent: shown this once."""

    secret: str


class Delivery(TypedDict):
    """A notice on its way to a webhook. `delivery`: the id it is sent with."""

    webhook: int
    delivery: str
    kind: str
    at: Time
    state: str
    attempts: int
    status: int | None
    error: str | None


class WebhookList(TypedDict):
    """Every webhook, and the newest deliveries."""

    items: list[Webhook]
    deliveries: list[Delivery]


class DeliveryOutcome(TypedDict):
    """What came of trying a webhook: its status, or why there was none."""

    delivered: bool
    status: int | None
    error: str | None


class QueryAnswer(TypedDict):
    """The rows of a query, or the first of them; columns may repeat. Times are UTC text, bytes hexadecimal digits.

    types: DuckDB's, by column. as_of: when the database held what the query read.
    """

    columns: list[str]
    types: list[str]
    rows: list[list[Any]]
    truncated: bool
    notes: list[str]
    elapsed_s: float
    as_of: str


class SavedQuery(TypedDict):
    """A query under a permanent address: `slug` is its name there."""

    slug: str
    name: str
    query: str
    public: bool
    owner: str
    created_at: Time


class SavedQueryList(TypedDict):
    """The saved queries that the viewer may open."""

    items: list[SavedQuery]


class Account(TypedDict):
    """A person or program. `password`: whether it can sign in."""

    account: str
    role: str
    password: bool
    disabled: bool
    created_at: Time
    last_login_at: Time | None


class AccountList(TypedDict):
    """Every account, by name."""

    items: list[Account]


class Token(TypedDict):
    """A token, but not its secret: only its first letters are known."""

    id: int
    account: str
    name: str
    begins: str
    scopes: list[str]
    created_at: Time
    last_used_at: Time | None
    expires_at: Time | None
    revoked_at: Time | None


class NewToken(Token):
    """A token with its secret: shown this once."""

    token: str


class TokenList(TypedDict):
    """The tokens of an account, newest first."""

    items: list[Token]


class AuditEvent(TypedDict):
    """What was done, or refused, and by whom."""

    id: int
    at: Time
    actor: str
    action: str
    target: str | None
    outcome: str
    address: str | None
    details: dict[str, Any] | None


class AuditList(Page):
    """A page of the audit trail, newest first."""

    items: list[AuditEvent]
