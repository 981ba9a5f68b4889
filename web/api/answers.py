"""The answers of the API, a class for each; the OpenAPI document is generated from them.

Times are texts in ISO 8601, UTC. Numbers are as stored; null means undefined, or not known yet. Arrays run by position
in predictions. Keys are only ever added.
"""

# mypy: disable-error-code="misc"
# (the class for the columns of a view is made at run time)

from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from registry.metrics import METRICS
from web.api.columns import Answer, Digest, Time, columns_of

Interval = Annotated[list[float], Field(min_length=2, max_length=2, description="Low and high of a 95 % interval.")]
RankInterval = Annotated[list[int], Field(min_length=2, max_length=2, description="Lowest and highest rank, 95 %.")]


def absent(description: str | None = None) -> Any:
    """Mark a key that some answers do not have."""
    return Field(default_factory=lambda: None, description=description)


class Page(Answer):
    """A page of a list."""

    total: int
    page: int
    per_page: int
    next: str | None = Field(description="The address of the next page; null on the last.")


class EvaluationHeader(Answer):
    """The identity of an evaluation: model, benchmark, protocol and variants."""

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
    distinct_prompts_min: int | None
    distinct_prompts_max: int | None
    variants_max: int | None
    orders_only: bool | None
    chance: float | None
    sampled_from: int | None = Field(description="The questions are a sample of so many; null: no sample was drawn.")
    sample_seed: int | None = Field(description="The seed that drew the sample.")
    lists_options: bool = Field(description="Whether prompts list the options; else they show no order.")
    samples: bool | None = Field(
        description="Whether the model draws its answers at random; null: unknown, as of imported answers."
    )


_METRICS: dict[str, Any] = {
    name: (
        float | None,
        (absent if metric.for_papers else Field)(description=f"{metric.label}: {metric.summary}"),
    )
    for name, metric in METRICS.items()
}
MetricValues: Any = create_model(
    "MetricValues",
    __base__=Answer,
    __doc__="Metrics by name, null if undefined.",
    **_METRICS,
)


class Problem(Answer):
    """An error, after RFC 9457. `detail` names the thing, its value and the remedy."""

    type: str
    title: str
    detail: str
    instance: str
    status: int


class ScopeMetric(columns_of("evaluation_metrics", but=("evaluation_id",))):
    """A metric over a scope of questions: `all`, `unflagged`, `subject:…`, `category:…`."""

    computed_at: Time | None


class MetricDefinition(Answer):
    """A metric. `low` and `high`: the ends of its range, null if it is unbounded."""

    label: str
    better: Literal["higher", "lower", "neither"]
    unit: str
    low: float | None
    high: float | None
    definition_version: int
    view: str = Field(description="The SQL view that computes it.")
    summary: str
    source: str
    metric: str
    guide: str = Field(description="Where the guide explains it.")


class MetricList(Answer):
    """Every metric, in the guide's order."""

    items: list[MetricDefinition]


class Wait(Answer):
    """An obstacle that no worker can shorten; kind: `batch`, `rate-limit` or `budget`.

    since: null if unknown. until: time of the event in `ends`; null if unknown, or if somebody must act.
    """

    kind: str
    reason: str
    ends: str
    since: Time | None
    until: Time | None
    what: str


class Progress(Answer):
    """The progress of an evaluation. Rate and time left are null until something was measured."""

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
    no_worker: bool = Field(description="It waits on a queue that no live worker serves.")
    waits: list[Wait]
    prompts_per_second: float | None
    seconds_left: float | None
    tokens_naive: int | None
    tokens_computed: int | None
    tokens_saved: int | None
    error: None
    evaluation: int


class NotRanked(Answer):
    """The reason why something has no rank, and the command that adds the missing data."""

    reason: str
    command: str


class AboveChance(Answer):
    """A metric on the scale from 0 for guessing to 1 for perfect; `chance`: guessing on the metric's own scale."""

    value: float | None
    chance: float | None
    interval_low: float | None
    interval_high: float | None


class LeaderboardRow(columns_of("leaderboard")):
    """An evaluation with its metrics. `rank`: among evaluations of the same questions; null until it is sealed."""

    prompts: int
    asked: str | None = Field(description="In how many orders or variants; null until it is sealed.")
    not_ranked: NotRanked | None = Field(description="Where it has no rank because it was asked in one order.")
    ranked_by: str | None = Field(
        description="Metric of its rank: accuracy where all were asked in one order; null until it is sealed."
    )
    missing_answers: float | None = Field(
        description="Share of its answers that are missing: unread, unfinished, empty or refused."
    )
    above_chance: dict[str, AboveChance] = absent("Accuracy above chance, where asked for with above_chance=yes.")
    question_filter: dict[str, Any] = Field(description="Which questions of the benchmark were asked.")
    rank: int | None = Field(description="Null in a group of one model.")
    n: dict[str, int | None] = Field(description="Metric to over how many questions it is.")
    intervals: dict[str, Interval | None] = Field(description="Metric to its 95 % interval.")
    progress: Progress | None
    cost: float | None = Field(description="What a provider charged, as far as it is known.")


class Leaderboard(Page):
    """A page of the leaderboard: complete evaluations first, in the requested order."""

    scope: str
    ranked_by: str
    sort: str
    order: str
    rows: list[LeaderboardRow]


class ListedEvaluation(EvaluationHeader):
    """An evaluation in a list, with its progress."""

    priority: int
    progress: Progress


class EvaluationList(Page):
    """A page of evaluations, newest first."""

    items: list[ListedEvaluation]


class ModelIdentity(Answer):
    """The loaded model. `location` is null if it is a folder on a worker."""

    kind: str
    location: str | None
    dtype: str | None
    quantisation: str | None
    weights_digest: Digest | None
    tokenizer_digest: Digest | None
    commit: str | None


class BenchmarkIdentity(Answer):
    """The benchmark's content and its source."""

    content_digest: Digest
    file_digest: Digest
    licence: str | None
    source: str | None


class ShardProvenance(
    columns_of(
        "evaluation_provenance",
        but=(
            "evaluation_id",
            "engine_fingerprint",
        ),
    )
):
    """Worker, time and engine of a slice of an evaluation."""


class PromptDigests(Answer):
    """Number of known prompt digests, and one digest over all of them; null if the prompts are unknown."""

    count: int
    digest: Digest | None


class Tokens(Answer):
    """Tokens of all prompts, the computed ones, and those saved by shared beginnings and copies."""

    naive: int | None
    computed: int | None
    saved: int | None


class CopySource(Answer):
    """A sealed evaluation that results were copied from; its number is null if this registry does not contain it."""

    seal: Digest
    evaluation: int | None
    predictions: int
    withdrawn: bool


class Copies(Answer):
    """Results that were copied from other evaluations. copied_by: evaluations that copied these results."""

    predictions: int
    sources: list[CopySource]
    withdrawn: bool = Field(description="A source was withdrawn since.")
    copied_by: list[int]


class Withdrawn(Answer):
    """The withdrawal of an evaluation, and its reason. superseded_by: the seal of its replacement."""

    reason: str
    actor: str
    at: Time
    superseded_by: Digest | None
    superseding_evaluation: int | None
    kind: Literal["withdrawn", "superseded"]


class PlaceInChain(Answer):
    """The link of the chain that contains an evaluation's seal."""

    position: int
    digest: Digest
    previous: Digest
    labels: Digest | None
    at: Time


class Link(columns_of("chain_links")):
    """A link of the chain. `digest` covers all other fields and, through `previous`, every earlier link."""

    kind: Literal["seal", "folder", "withdrawal", "snapshot"]
    subject: Digest = Field(description="The seal, the snapshot's digest, or that of a withdrawal.")


class Signature(Answer):
    """A signed head of the chain. statement: the signed text; signature: base64; public_key: PEM."""

    position: int
    head: Digest
    at: Time
    key: Digest
    public_key: str
    statement: str
    signature: str


class SignaturePage(Page):
    """Signatures of the chain's head, the newest first."""

    items: list[Signature]


class ChainPage(Page):
    """A page of the chain, the newest link first. head: the digest of the last link, which identifies the whole chain.

    signature: the newest signature; null if nothing was signed.
    """

    head: Digest | None
    signature: Signature | None
    items: list[Link]


class ProvenanceDifference(Answer):
    """Differences and common facts of two provenances: group → fact → the value, or both values."""

    evaluations: list[int]
    same: dict[str, dict[str, Any]]
    different: dict[str, dict[str, list[Any]]]


class McNemarTest(Answer):
    """Questions that only one of the two has right, and the two-sided probability of a split at least as uneven."""

    only_first: int
    only_second: int
    p_value: float
    mid_p: float


class MetricDifference(Answer):
    """A metric of two evaluations over the `n` questions with a value in both; the difference is first minus second."""

    first: float | None
    second: float | None
    difference: float | None
    n: int
    interval: Interval | None
    mcnemar: McNemarTest | None = Field(description="Null if a question is not simply right or wrong.")


class ComparedEvaluation(Answer):
    """One of the two evaluations."""

    evaluation: int
    revision: int
    shots: int
    replicate: int
    model: str
    benchmark: str
    benchmark_version: str
    protocol: str
    variants: str


class DifferingQuestion(Answer):
    """A question that only one of the two has right."""

    question_id: int
    external_id: str


class DifferingQuestions(Answer):
    """Questions that only one of the two has right by `metric`, the first 200 of each side."""

    metric: str | None
    only_first: list[DifferingQuestion]
    only_second: list[DifferingQuestion]


class CauseShares(Answer):
    """Shares of all flips by cause; null without a flip, or if a share is not known."""

    model: float | None
    reading: float | None
    key: float | None


class Causes(Answer):
    """Causes of answers that are right in only one of the two: `model`, `reading` and `key` add up to `flips`.

    Null: the cause cannot be separated from others, which `undivided` names with their number `together`.
    """

    prompts: int = Field(description="Prompts that both answered, with the same options in the same order.")
    flips: int | None
    model: float | None
    reading: float | None
    key: float | None
    shares: CauseShares
    undivided: list[str]
    together: float | None
    remedy: str | None = Field(description="How to tell undivided causes apart, or to count at all.")


class Comparison(Answer):
    """Two evaluations of one benchmark, question by question. Metrics that neither evaluation has are absent."""

    first: ComparedEvaluation
    second: ComparedEvaluation
    relation: Literal["same revision", "another revision", "another model"] = Field(
        description="Whether the second evaluation is of the first's model, and of the same revision of it."
    )
    questions: int = Field(description="Questions that both ask.")
    resamples: int
    seed: int
    metrics: dict[str, MetricDifference]
    differing: DifferingQuestions
    causes: Causes


class Provenance(Answer):
    """The origin of an evaluation's numbers. Each engine fingerprint is listed once, under its digest."""

    specification: dict[str, Any]
    specification_digest: Digest
    protocol_digest: Digest
    variant_set_digest: Digest
    seal_version: int | None
    requester: str | None
    conflict_of_interest: str | None
    seal: Digest | None
    mixed_engines: bool
    model: ModelIdentity
    benchmark: BenchmarkIdentity
    seeds: dict[str, int | str] = Field(description="What was drawn, to its seed.")
    prompts: PromptDigests
    tokens: Tokens
    metrics_computed_by: list[str] = Field(
        description="Versions of the code, with their commits, that computed its metrics."
    )
    copies: Copies
    replayed_from: int | None = Field(
        description="The evaluation whose stored answers these are; null: none, or it is not here."
    )
    replays: list[int] = Field(description="Evaluations that were made from these stored answers.")
    withdrawals: list[Withdrawn]
    chain: PlaceInChain | None
    engine_fingerprints: dict[str, dict[str, Any]]
    shards: list[ShardProvenance]


class RepeatNoise(Answer):
    """Shares of pairs of answers to a question that differ if nothing changed, and if only the order changed.

    order_effect: order minus repeat disagreement, over the `questions` that have both kinds of pairs; `interval`
    belongs to it. Intervals are 95 %, from one bootstrap over questions; null if none is stated.
    """

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
    evaluations: list[int] = Field(description="The evaluation with its replicates: whose orders these are.")
    noise_from: list[int] = Field(description="The evaluations whose repeats these are; empty: none.")
    resamples: int
    seed: int


class ServedModel(Answer):
    """A name under which a model answered. first, last: times of its first and its last answer."""

    served_model: str | None
    system_fingerprint: str | None
    prompts: int
    first: Time | None
    last: Time | None


class Cost(columns_of("evaluation_costs", but=("evaluation_id",))):
    """Cost of an evaluation's answers, in `currency`, and how many were refused, filtered or cut off.

    cost: null if unknown; cost_unresolved: the most that calls of unknown cost can add to it. models: names under which
    the model answered, with the number of prompts; several if the name changed in between.
    """

    complete: int
    models: list[ServedModel]
    currency: str


class ClusteredInterval(Answer):
    """A metric's 95 % interval over resampled clusters, and the factor by which clusters increase the variance."""

    interval: Interval | None
    design_effect: float | None


class Clustered(Answer):
    """Intervals if questions belong together, such as questions on one passage.

    `largest`: size of the largest cluster.
    """

    questions: int
    clusters: int
    largest: int
    metrics: dict[str, ClusteredInterval]


class EvaluationDocument(EvaluationHeader):
    """An evaluation with progress, metrics and provenance. noise: null if no prompt was repeated.

    cost: null if no provider served the model.
    """

    cost: Cost | None
    progress: Progress
    metrics: MetricValues
    noise: RepeatNoise | None
    clustered: Clustered | None = Field(description="Null where every question stands for itself.")
    scopes: list[ScopeMetric]
    provenance: Provenance


class QuestionResult(columns_of("question_metrics")):
    """A question's metrics in an evaluation and their counts. If `stored` is below `expected`, it is not fully scored.

    variants: number of variants with exactly the question's own options; valid, correct, agreeing: number of them with
    a valid answer, with the right answer, and with the same answer as the first.
    """

    variants: int
    valid: int
    correct: int
    agreeing: int


class EvaluationQuestion(QuestionResult):
    """A question of an evaluation with its text."""

    text: str


class EvaluationQuestions(Page):
    """A page of an evaluation's questions, in the benchmark's order.

    `counts`: number of questions that pass each filter.
    """

    counts: dict[str, int]
    items: list[EvaluationQuestion]


class Prediction(columns_of("prediction_detail")):
    """The result of one prompt. `shown[p]` is the option at position p; inserted options are negative."""


class PredictionPage(Answer):
    """Predictions by question and variant, from `cursor` on. `next_cursor` is null on the last page."""

    limit: int
    next_cursor: str | None
    next: str | None
    items: list[Prediction]


class Question(Answer):
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


class EvaluationQuestionDocument(Answer):
    """A question in one evaluation, with its predictions by variant."""

    evaluation_id: int
    question: Question
    expected: int
    inserted: dict[str, str] = Field(description="Inserted option (negative ordinal) to its text.")
    predictions: list[Prediction]


class QuestionOutcome(EvaluationHeader):
    """The outcome of a question in one evaluation."""

    priority: int
    outcome: QuestionResult


class QuestionDocument(Page):
    """A question and its outcome in every evaluation that includes it, newest first."""

    question: Question
    items: list[QuestionOutcome]


class ListedModel(Answer):
    """A model, with the numbers of its revisions and public evaluations."""

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


class ModelList(Answer):
    """Every model, by name."""

    items: list[ListedModel]


class ModelRevision(Answer):
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
    base_digest: Digest | None
    adapter_digest: Digest | None
    weights_digest: Digest | None
    tokenizer_digest: Digest | None
    chat_template_digest: Digest | None
    state: str
    created_at: Time


class ModelDocument(Answer):
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


class BenchmarkVersion(Answer):
    """A version of a benchmark, with its content."""

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
    public_from: Time | None
    shuffle_seed: int | None
    questions: int
    few_shot_examples: int
    created_at: Time
    evaluations: int


class BenchmarkList(Answer):
    """Every benchmark version that the viewer may see, newest first within each name."""

    items: list[BenchmarkVersion]


class BenchmarkDocument(Answer):
    """A benchmark's public versions, newest first, and its rows of the leaderboard."""

    benchmark: str
    versions: list[BenchmarkVersion]
    evaluations: list[LeaderboardRow]


class Protocol(Answer):
    """A protocol: the form of prompts and the reading of answers. `digest` identifies the definition permanently."""

    shots: int
    digest: Digest
    definition: dict[str, Any]
    created_at: Time
    protocol: str


class ProtocolList(Answer):
    """Every protocol in the registry, by name, shots and age."""

    items: list[Protocol]


class PublishedResult(columns_of("published_results")):
    """A number that a paper prints, as printed.

    `registry_metric`: the registry's metric with the same meaning, or null.
    """


class PublishedList(Page):
    """A page of printed numbers, in the order of their tables."""

    items: list[PublishedResult]


class Overall(Answer):
    """Totals over everything that is queued or running."""

    evaluations: int
    prompts: int
    prompts_done: int
    shards_failed: int
    tokens_naive: int
    tokens_computed: int
    tokens_saved: int
    prompts_per_second: float
    seconds_left: float | None


class LiveWorker(Answer):
    """A worker with a recent heartbeat."""

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
    """A page of unfinished evaluations, newest first, and the live workers."""

    overall: Overall
    queues_without_worker: list[str]
    workers: list[LiveWorker]
    differing_versions: dict[str, dict[str, int]] = Field(
        description="Package to version to workers, where they differ."
    )
    items: list[ListedEvaluation]


class Named(Answer):
    """A suite by name and version."""

    name: str
    version: int


class NamedSuite(Answer):
    """A suite by name, version and digest."""

    name: str
    version: int
    digest: Digest


class ListedSuite(NamedSuite):
    """A suite: the tasks that every model has to complete."""

    title: str
    created_at: Time


class SuiteList(Answer):
    """The newest version of every suite, by name."""

    items: list[ListedSuite]


class SuiteDocument(ListedSuite):
    """A suite with its definition, as in its file."""

    definition: dict[str, Any]


class ListedBoard(Answer):
    """A board: a suite on certain benchmarks, with the columns to show."""

    board: str
    title: str
    url: str
    version: int
    digest: Digest
    columns: list[str]
    suite: Named


class BoardList(Answer):
    """The newest version of every public board, by name."""

    items: list[ListedBoard]


class BoardColumn(Answer):
    """A column of a board: a metric on a set of variants."""

    name: str
    metric: str
    variants: str
    better: str
    protocol: str | None
    definition_version: int


class BoardEntry(Answer):
    """One evaluation that a board requires of every model."""

    task: str
    benchmark: str
    version: str
    protocol: str
    variants: str
    content_digest: Digest
    protocol_digest: Digest
    shots: int
    questions: int
    question_filter: dict[str, Any]


class BoardEvaluation(Answer):
    """The sealed evaluation behind an entry of a board. Old snapshots lack its engines and copies."""

    evaluation: int
    replicate: int
    seal: Digest
    mixed_engines: bool = absent()
    copies_withdrawn: bool = absent()


class BoardNeighbour(Answer):
    """A model compared with the next better ranked model. Null if not compared, such as on few questions.

    `told_apart` is true for all pairs of the column at once, `p_holm` is corrected for all of them, `p_value` for none.
    """

    revision: int
    difference: float
    standard_error: float | None
    p_value: float | None
    p_holm: float | None
    told_apart: bool
    model: str


class BoardValue(Answer):
    """A model's value in one column. Models of one `tier` do not differ measurably; only complete rows have ranks.

    `rank_interval` and `tier` hold for this model alone, `all_rank_interval` and `all_tier` for all models at once. If
    questions form clusters, `clusters` is the number of independent groups, `cluster_interval` and the ranks are over
    resampled clusters, and `design_effect` is the factor by which this increases the variance.
    """

    value: float | None
    n: int
    interval: Interval | None
    clusters: int = absent()
    cluster_interval: Interval | None = absent()
    design_effect: float | None = absent()
    rank: int | None
    tier: int | None
    all_tier: int | None
    rank_interval: RankInterval | None
    all_rank_interval: RankInterval | None
    above: BoardNeighbour | None = absent()


class BoardUncertainty(Answer):
    """A small task that causes most of the uncertainty of a column's means."""

    task: str
    questions: int
    share: float = Field(description="Of the variance of the mean over tasks, in [0, 1].")


class BoardPairs(Answer):
    """All pairs of a column's ranked models, compared at once; `neighbours` are next to each other in the ranking.

    A pair differs measurably (`told_apart`) if its difference exceeds about `critical_value` standard errors.
    `standard_error` is the error of the median pair's difference.
    """

    models: int
    pairs: int
    pairs_told_apart: int
    neighbours: int
    neighbours_told_apart: int
    critical_value: float | None
    standard_error: float | None
    matrix: list[str]
    uncertainty: BoardUncertainty | None = absent()


class SelectedRow(Answer):
    """A model revision of a selection. `evaluations` are in the order of the entries; null: not sealed yet."""

    family: str | None
    parameters: int | None
    dtype: str | None
    quantisation: str | None
    model: str
    revision: int
    identity: dict[str, Any]
    complete: bool
    evaluations: list[BoardEvaluation | None]
    values: dict[str, BoardValue] = Field(description="Column to value.")


class BoardRow(SelectedRow):
    """A model revision on a board. `evaluations` are in the order of the board's entries; null: not sealed yet.

    cost: the providers' charges for the evaluations, as far as known. tokens_per_answer: mean number of tokens,
    thoughts included.
    """

    cost: float | None
    tokens_per_answer: float | None
    conflict_of_interest: str | None = Field(
        description="As stated for its evaluations: none, or what it is; null: not stated for all."
    )


class Bootstrap(Answer):
    """How the intervals of a board were drawn."""

    resamples: int
    seed: int
    confidence: float


class Unranked(Answer):
    """A model without a rank in a column, with the reason and the commands that add the missing data.

    column: null for all columns.
    """

    model: str
    reason: str
    revision: int
    column: str | None
    commands: list[str]


class BoardRules(Answer):
    """A board's rules for submissions; null and empty lists: no limit. `sentences`: the enforced rules in words."""

    text: str
    accounts: list[str]
    per_account: int | None
    per_model: int | None
    per_day: int | None
    sources: list[Literal["hub", "endpoint"]]
    dtypes: list[Literal["float32", "bfloat16", "float16"]]
    same_suite: bool
    statement: bool
    anonymous: bool
    sentences: list[str]


class Board(Answer):
    """A board at a time. `digest` identifies it permanently; `sql` reads the same rows from the database.

    currency: currency of the providers' charges; null if there are none. submissions: the board's rules; null if it has
    none.
    """

    snapshot_version: int
    board_version: int
    sealed_evaluations: int
    board: str
    title: str
    text: str
    sort: str
    permalink: str
    sql: str
    board_digest: Digest
    digest: Digest
    withdrawals: int = absent()
    currency: str | None
    as_of: Time
    suite: NamedSuite
    columns: list[BoardColumn]
    entries: list[BoardEntry]
    bootstrap: Bootstrap
    together: dict[str, BoardPairs] = absent("Column to all of its pairs.")
    weights: dict[str, int] = absent("Task to how much it counts, where not 1.")
    models: dict[str, Any] = absent("Which models it takes; absent: all.")
    rows: list[BoardRow]
    chance: dict[str, float] = Field(description="Column of accuracy to what guessing gives there.")
    unranked: list[Unranked]
    submissions: BoardRules | None


class SelectedBoard(Answer):
    """Tasks, weights, columns and models that were chosen from a board, with ranks and tiers among these alone.

    digest: the SHA-256 of `selection`, which is canonical JSON. snapshot: the snapshot that the choices are from. url:
    the selection's page.
    """

    board: str
    selection: str
    sort: str
    url: str
    snapshot: Digest
    digest: Digest
    as_of: Time
    columns: list[BoardColumn]
    entries: list[BoardEntry]
    weights: dict[str, int] = Field(description="Task to how much it counts.")
    bootstrap: Bootstrap
    together: dict[str, BoardPairs] = Field(description="Column to all of its pairs.")
    rows: list[SelectedRow]
    chance: dict[str, float] = Field(description="Column of accuracy to what guessing gives there.")
    unranked: list[Unranked]


class ListedSnapshot(Answer):
    """A board at a time, and its address."""

    as_of: Time
    digest: Digest
    board_version: int
    url: str
    signature: Signature | None = Field(description="The first that covers it; null: none does yet.")


class SnapshotList(Answer):
    """Every snapshot of a board, newest first."""

    items: list[ListedSnapshot]


class RegisteredModel(Answer):
    """A requested model revision. `added`: whether it is new; usable once its state is `ready`."""

    model: str
    kind: str
    state: str
    url: str
    revision: int
    dtype: str | None
    quantisation: str | None
    added: bool


class ImportedBenchmark(Answer):
    """An imported benchmark version. `imported`: whether it is new."""

    benchmark: str
    version: str
    visibility: str
    questions: int
    few_shot_examples: int
    content_digest: Digest
    imported: bool


class ChangedVisibility(Answer):
    """The new visibility of a benchmark, and the versions that it applies to."""

    benchmark: str
    visibility: str
    public_from: Time | None
    versions: list[str]


class AskedEvaluations(Answer):
    """Every requested evaluation, and the new ones among them."""

    evaluations: list[int]
    new: list[int]


class EvaluationState(Answer):
    """The state of an evaluation after it was moved."""

    evaluation: int
    state: str


class ImportedOutputs(Answer):
    """The evaluation created from outputs. `stated`: the file's own score, compared with ours."""

    evaluation: int
    stated: dict[str, Any] | None


class Replay(Answer):
    """An evaluation that was created from the stored answers of another, its source."""

    evaluation: int
    source: int


class DistinctPrompts(Answer):
    """Smallest and largest number of different prompts per question; null if nothing is stored."""

    min: int | None
    max: int | None


class Sample(Answer):
    """A sample of `questions` out of `of` questions: those with the smallest SHA-256 of `seed:question id`."""

    questions: int
    of: int
    seed: int


class EvaluationMetrics(Answer):
    """An evaluation's metrics; `scored` of its `questions` have all their variants. per_question: if requested.

    noise: over all questions; null if no prompt was repeated.
    """

    evaluation: int
    questions: int
    scored: int
    complete: bool
    metrics: MetricValues
    intervals: dict[str, Interval | None] = Field(description="Metric to its 95 % interval, once sealed.")
    distinct_prompts: DistinctPrompts
    noise: RepeatNoise | None
    asked: str | None = Field(description="In how many orders or variants, in words.")
    chance: float | None = Field(description="Accuracy that guessing gives over all questions.")
    clustered: Clustered | None = Field(description="Null where every question stands for itself.")
    sample: Sample | None = Field(
        description="Null if its questions are no sample. Intervals are for all that it was drawn from."
    )
    undefined: dict[str, str] = Field(description="Metric to why it has no value, where it has none.")
    per_question: dict[str, MetricValues] = absent()


class Verification(Answer):
    """Problems of a sealed evaluation. `ok`: whether there are none. `questions`: questions with a wrong leaf."""

    evaluation: int
    seal: Digest | None
    seal_version: int | None
    sealed_columns: list[str] = Field(description="Columns of predictions that a seal of its format covers.")
    ok: bool
    problems: list[str]
    questions: list[str]


class ImportedSuite(Answer):
    """A loaded suite. `new`: whether it is a new version."""

    suite: str
    version: int
    digest: Digest
    new: bool


class ImportedBoard(Answer):
    """A loaded board. `new`: whether it is a new version."""

    board: str
    version: int
    digest: Digest
    new: bool


class EstimatedOfModel(Answer):
    """The same of a model that is registered. `prompts_sampled`: how many were tokenised."""

    evaluation: int | None
    model: str
    revision: int
    benchmark: str
    variants: str
    protocol: str
    shots: int
    questions: int
    prompts: int
    prompts_left: int
    prompts_sampled: int
    tokens_naive: int | None
    tokens_shared: int | None
    seconds: float | None
    reason: str | None
    cost: float | None
    cost_limit: float | None


class EstimatedEvaluation(Answer):
    """Estimated cost of one evaluation. `evaluation`: an existing one. `reason`: why something is null.

    cost, cost_limit: a provider's charge, expected from earlier answers and at most; 0 for any other model.
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


class NeededForMetric(Answer):
    """The sample that one metric needs.

    variance: variance of its values in the `pilot`; without one, the largest possible.
    """

    metric: str
    sample: int
    half_width: float
    variance: float
    pilot: int | None


class Estimate(Answer):
    """Estimated cost of some evaluations together; null if a part is unknown. `workers`: number of live workers.

    If a precision was given, `sample` of `of` questions is the smallest sample whose 95 % intervals reach at most this
    far to either side. pilot: the evaluation of the same model, benchmark and protocol from which it is estimated;
    null: none. half_width: the widest interval of the metrics with that sample, to either side.
    """

    prompts: int
    prompts_left: int
    tokens_naive: int | None
    tokens_shared: int | None
    seconds: float | None
    cost: float | None
    cost_limit: float | None
    estimates: list[EstimatedOfModel]
    currency: str | None
    workers: int
    precision: float = absent()
    sample: int = absent()
    of: int = absent()
    half_width: float = absent()
    pilot: int | None = absent()
    metrics: list[NeededForMetric] = absent()


class SubmittedModel(Answer):
    """A requested model. `location`: its name on the hub; `endpoint`: the name of an endpoint."""

    name: str
    kind: str
    location: str = absent()
    endpoint: str = absent()
    revision: str | None
    dtype: str | None


class Submission(Answer):
    """A request to run a test suite on a model. `revision`: its registered revision; `problem`: why it failed."""

    state: str
    suite: str
    model: SubmittedModel
    note: str | None
    conflict_of_interest: str | None
    anonymous: bool
    created_at: Time
    decided_at: Time | None
    reason: str | None
    finished_at: Time | None
    submission: int
    requester: str
    decided_by: str | None
    revision: str | None
    revision_state: str | None
    problem: str | None
    evaluations: list[int]


class SubmissionList(Page):
    """A page of submissions: undecided ones first, then the newest."""

    items: list[Submission]


class SubmissionEstimate(Answer):
    """Estimated cost of a submission. `problem`: why it could not be queued; then nothing else is known.

    currency: currency of a provider's charge; null if there is no provider.
    """

    questions: int = absent()
    prompts: int = absent()
    prompts_left: int = absent()
    workers: int = absent()
    tokens_naive: int | None = absent()
    tokens_shared: int | None = absent()
    seconds: float | None = absent()
    cost: float | None = absent()
    cost_limit: float | None = absent()
    currency: str | None = absent()
    problem: str | None
    estimates: list[EstimatedEvaluation]


class QueryAnswer(Answer):
    """The rows of a query, or the first of them; columns may repeat. Times are UTC text, bytes hexadecimal digits.

    types: DuckDB's types, by column. as_of: the time of the data.
    """

    columns: list[str]
    types: list[str]
    notes: list[str]
    truncated: bool
    elapsed_s: float
    as_of: str
    rows: list[list[Any]]


class SavedQuery(Answer):
    """A saved query with a permanent address, which ends in `slug`."""

    slug: str
    name: str
    public: bool
    created_at: Time
    query: str
    owner: str


class SavedQueryList(Answer):
    """The saved queries that the viewer may open."""

    items: list[SavedQuery]


class Account(Answer):
    """A person or program. `password`: whether it can sign in."""

    role: str
    created_at: Time
    last_login_at: Time | None
    account: str
    password: bool
    disabled: bool


class AccountList(Answer):
    """Every account, by name."""

    items: list[Account]


class Token(Answer):
    """A token without its secret: only the first letters are known."""

    id: int
    name: str
    scopes: list[str]
    created_at: Time
    last_used_at: Time | None
    expires_at: Time | None
    revoked_at: Time | None
    account: str
    begins: str


class NewToken(Token):
    """A token with its secret, which is shown only this once."""

    token: str


class TokenList(Answer):
    """The tokens of an account, newest first."""

    items: list[Token]


class AuditEvent(Answer):
    """An action that was done or refused, with its actor."""

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
