"""What the API answers, by the name that a route states: the OpenAPI document is made of these types.

Times are texts in ISO 8601, UTC. Numbers are as stored; null means undefined, or not known yet. Arrays run by position
where a prediction is concerned. Keys are only ever added.
"""

# mypy: disable-error-code="valid-type"

from typing import Any, NotRequired

from registry import tables
from registry.boards.definition import SubmissionRules
from registry.boards.standings import Above, Together
from registry.boards.submissions import SUBMISSION
from registry.metrics import METRICS, Metric
from registry.people.accounts import ACCOUNT, AUDIT, TOKEN
from registry.proof.provenance import PLACE
from registry.queue import estimate, progress, waits
from registry.statistics import noise, quantiles
from registry.tables import accounts as people
from web.api.listed import METRIC
from web.api.people import SAVED
from web.api.proof import SIGNATURE
from web.api.shapes import Digest, Interval, RankInterval, Time, items, one_of, page, said, shape
from web.shown import listings, queries
from web.shown.provenance import IDENTITY

_HEADER = shape(
    "_Header",
    "",
    queries.EVALUATIONS,
    sampled_from=said(int | None, "The questions are a sample of so many; null: no sample was drawn."),
    sample_seed=said(int | None, "The seed that drew the sample."),
    lists_options=said(bool, "Whether prompts list the options; else they show no order."),
)
MetricValues = shape(
    "MetricValues",
    "Every metric by name; null where it is undefined.",
    **{name: said(float | None, f"{metric.label}: {metric.summary}") for name, metric in METRICS.items()},
)
Problem = shape(
    "Problem",
    "An error, after RFC 9457. `detail` names the thing, its value and what to do.",
    {str: "type title detail instance", int: "status"},
)
ScopeMetric = shape(
    "ScopeMetric",
    "A metric over a scope of questions: `all`, `unflagged`, `subject:…`, `category:…`.",
    "evaluation_metrics",
    computed_at=Time | None,
    but=("evaluation_id",),
)
MetricDefinition = shape(
    "MetricDefinition",
    "What a metric is. `low` and `high`: its range, null where it is unbounded.",
    (Metric, METRIC),
    metric=str,
    view=said(str, "The SQL view that computes it."),
    guide=said(str, "Where the guide explains it."),
)
MetricList = items("MetricList", "Every metric, in the guide's order.", MetricDefinition)
Wait = shape(
    "Wait",
    """What an evaluation waits for that no worker can hasten; kind: `batch`, `rate-limit` or `budget`.

since: null where it is not known. until: when what `ends` says happens; null: not known, or somebody must act.""",
    waits.Wait,
    what=str,
    kind=str,
)
Progress = shape(
    "Progress",
    "How far an evaluation is. Rate and time left are null until something was measured.",
    (progress.Progress, progress.PROGRESS),
    evaluation=int,
    no_worker=said(bool, "It waits on a queue that no live worker serves."),
    waits=list[Wait],
    error=None,
)
NotRanked = shape(
    "NotRanked", "Why something has no rank, and the command that asks for what is missing.", reason=str, command=str
)
AboveChance = shape(
    "AboveChance",
    "A metric on the scale on which guessing is 0 and perfect 1; `chance`: what guessing gives on its own scale.",
    {float | None: "value chance interval_low interval_high"},
)
LeaderboardRow = shape(
    "LeaderboardRow",
    "An evaluation with its metrics. `rank`: among those who were asked the same; null until it is sealed.",
    "leaderboard",
    prompts=int,
    asked=said(str | None, "In how many orders or variants; null until it is sealed."),
    not_ranked=said(NotRanked | None, "Where it has no rank because it was asked in one order."),
    ranked_by=said(
        str | None, "Metric of its rank: accuracy where all were asked in one order; null until it is sealed."
    ),
    missing_answers=said(float | None, "Share of its answers that are missing: unread, unfinished, empty or refused."),
    above_chance=NotRequired[
        said(dict[str, AboveChance], "Accuracy above chance, where asked for with above_chance=yes.")
    ],
    question_filter=said(dict[str, Any], "Which questions of the benchmark were asked."),
    rank=said(int | None, "Null in a group of one model."),
    n=said(dict[str, int | None], "Metric to over how many questions it is."),
    intervals=said(dict[str, Interval | None], "Metric to its 95 % interval."),
    progress=Progress | None,
    cost=said(float | None, "What a provider charged, as far as it is known."),
)
Leaderboard = page(
    "Leaderboard",
    "A page of the leaderboard: complete evaluations first, in the order asked for.",
    LeaderboardRow,
    {str: "scope ranked_by sort order"},
    key="rows",
)
EvaluationHeader = shape(
    "EvaluationHeader", "What identifies an evaluation, and how it was asked.", _HEADER, but=("priority",)
)
ListedEvaluation = shape("ListedEvaluation", "An evaluation in a list, with its progress.", _HEADER, progress=Progress)
EvaluationList = page("EvaluationList", "A page of evaluations, newest first.", ListedEvaluation)
ModelIdentity = shape(
    "ModelIdentity",
    "Exactly what was loaded. `location` is null where it is a folder on a worker.",
    (tables.ModelRevision, IDENTITY),
    commit=str | None,
)
BenchmarkIdentity = shape(
    "BenchmarkIdentity",
    "Exactly what was asked.",
    (tables.BenchmarkVersion, ("content_digest", "file_digest", "licence", "source")),
)
ShardProvenance = shape(
    "ShardProvenance",
    "Who scored a slice of an evaluation, when and on what.",
    "evaluation_provenance",
    but=("evaluation_id", "engine_fingerprint"),
)
PromptDigests = shape(
    "PromptDigests",
    "How many prompts' digests are kept, and one digest over them; null where nothing says what was asked.",
    count=int,
    digest=Digest | None,
)
Tokens = shape(
    "Tokens",
    "Tokens of all prompts, those that were computed, and those that shared beginnings and copies saved.",
    {int | None: "naive computed saved"},
)
CopySource = shape(
    "CopySource",
    "A sealed evaluation that results were copied from; its number is null where this registry does not hold it.",
    {Digest: "seal", int | None: "evaluation", int: "predictions", bool: "withdrawn"},
)
Copies = shape(
    "Copies",
    "Results that were copied from other evaluations. copied_by: evaluations that hold copies of these results.",
    predictions=int,
    sources=list[CopySource],
    withdrawn=said(bool, "A source was withdrawn since."),
    copied_by=list[int],
)
Withdrawn = shape(
    "Withdrawn",
    "That an evaluation no longer counts, and why. superseded_by: the seal of the one that stands for it.",
    {str: "reason actor", Time: "at", Digest | None: "superseded_by", int | None: "superseding_evaluation"},
    kind=one_of("withdrawn", "superseded"),
)
PlaceInChain = shape("PlaceInChain", "The link that holds an evaluation's seal.", (tables.ChainLink, PLACE))
Link = shape(
    "Link",
    "A link of the chain: `digest` is taken over all else, and through `previous` over every link before.",
    "chain_links",
    kind=one_of("seal", "folder", "withdrawal", "snapshot"),
    subject=said(Digest, "The seal, the snapshot's digest, or that of a withdrawal."),
)
Signature = shape(
    "Signature",
    "A signed head of the chain. statement: what was signed; signature: base64; public_key: PEM.",
    (tables.ChainSignature, SIGNATURE),
)
SignaturePage = page("SignaturePage", "Signatures of the chain's head, the newest first.", Signature)
ChainPage = page(
    "ChainPage",
    """A page of the chain, the newest link first. head: the digest of the last link, which stands for all.

signature: the newest; null where nothing was signed.""",
    Link,
    head=Digest | None,
    signature=Signature | None,
)
ProvenanceDifference = shape(
    "ProvenanceDifference",
    "What differs between two provenances, and what does not: group to fact to value, or to both values.",
    evaluations=list[int],
    same=dict[str, dict[str, Any]],
    different=dict[str, dict[str, list[Any]]],
)
McNemarTest = shape(
    "McNemarTest",
    "Questions that only one of the two has right, and the two-sided probability of a split as uneven.",
    {int: "only_first only_second", float: "p_value mid_p"},
)
MetricDifference = shape(
    "MetricDifference",
    "A metric of both evaluations over the `n` questions that both have a value for, and the first minus the second.",
    {float | None: "first second difference", int: "n"},
    interval=Interval | None,
    mcnemar=said(McNemarTest | None, "Null if a question is not simply right or wrong."),
)
ComparedEvaluation = shape(
    "ComparedEvaluation",
    "One of the two evaluations.",
    {
        int: "evaluation revision shots replicate",
        str: "model benchmark benchmark_version protocol variants",
    },
)
DifferingQuestion = shape(
    "DifferingQuestion", "A question that only one of the two has right.", {int: "question_id", str: "external_id"}
)
DifferingQuestions = shape(
    "DifferingQuestions",
    "Questions that only one of the two has right by `metric`, the first 200 of each side.",
    {str | None: "metric", list[DifferingQuestion]: "only_first only_second"},
)
Comparison = shape(
    "Comparison",
    "Two evaluations of one benchmark, question by question; metrics that neither has are absent.",
    first=ComparedEvaluation,
    second=ComparedEvaluation,
    relation=said(
        one_of("same revision", "another revision", "another model"),
        "Whether the second evaluation is of the first's model, and of the same revision of it.",
    ),
    questions=said(int, "Questions that both ask."),
    resamples=int,
    seed=int,
    metrics=dict[str, MetricDifference],
    differing=DifferingQuestions,
)
Provenance = shape(
    "Provenance",
    "Where an evaluation's numbers come from. Engine fingerprints stand once, under their digest.",
    {
        dict[str, Any]: "specification",
        Digest: "specification_digest protocol_digest variant_set_digest",
        int | None: "seal_version",
        str | None: "requester conflict_of_interest",
        Digest | None: "seal",
        bool: "mixed_engines",
    },
    model=ModelIdentity,
    benchmark=BenchmarkIdentity,
    seeds=said(dict[str, int | str], "What was drawn, to its seed."),
    prompts=PromptDigests,
    tokens=Tokens,
    metrics_computed_by=said(list[str], "Versions of the code, with their commits, that computed its metrics."),
    copies=Copies,
    withdrawals=list[Withdrawn],
    chain=PlaceInChain | None,
    engine_fingerprints=dict[str, dict[str, Any]],
    shards=list[ShardProvenance],
)
RepeatNoise = shape(
    "RepeatNoise",
    """How often two answers to a question differ when nothing changed, and when only the order did: shares of pairs.

order_effect: order minus repeat disagreement, over the `questions` that have both kinds of pairs; `interval` is its
own. Intervals are 95 %, from one bootstrap over questions; null where none is stated.""",
    noise.Noise,
    evaluations=said(list[int], "The evaluation with its replicates: whose orders these are."),
    noise_from=said(list[int], "The evaluations whose repeats these are; empty: none."),
    resamples=int,
    seed=int,
)
AxisEstimate = shape(
    "AxisEstimate",
    "A value with its 95 % interval over questions; null where none is stated.",
    value=float | None,
    interval=Interval | None,
)
AxisLevel = shape(
    "AxisLevel",
    "A level of an axis, such as a rotation or a template, with the accuracy under it over all other axes.",
    {int: "level", str: "name", float: "accuracy"},
)
AxisEffect = shape(
    "AxisEffect",
    "What an axis of the variants does to the accuracy. kind: of variants; null for replicates.",
    {str: "axis", str | None: "kind", float: "lowest_accuracy highest_accuracy"},
    levels=list[AxisLevel],
    moves=said(AxisEstimate, "Standard deviation of the accuracy over its levels, all else as it is."),
    moves_without_effect=said(float, "`moves` if answers were dealt to the levels at random."),
    fluctuation_rate=AxisEstimate,
    worst_accuracy=AxisEstimate,
    disagreement=AxisEstimate,
    shared=said(AxisEstimate, "Variance component that all questions share, of these levels."),
    by_question=said(AxisEstimate, "Variance component of the axis with the questions; null if chance is in it, too."),
)
Axes = shape(
    "Axes",
    """What moves an evaluation's accuracy: each axis of its variants, and its replicates.

components: variance components of single answers, by the axes they are of; null if chance is in it, too.
chance_inside: whether answers were, or may have been, drawn at random, and none was repeated. left_out: questions with
other cells.""",
    {
        list[int]: "evaluations",
        int: "questions left_out cells resamples seed",
        float: "accuracy",
        bool: "chance_inside",
    },
    components=dict[str, float | None],
    axes=list[AxisEffect],
)
WordingQuantile = shape(
    "WordingQuantile",
    "A quantile of the accuracy over wordings. standard_error, low, high: null where it is exact.",
    quantiles.Quantile,
)
WordingLevel = shape(
    "WordingLevel",
    "A wording with its accuracy, estimated where not all cells were asked, and how many answers it got.",
    AxisLevel,
    answers=int,
)
Wordings = shape(
    "Wordings",
    "The accuracy over the wordings of an evaluation. asked_share: of the cells of all questions.",
    {
        list[int]: "evaluations",
        str: "axis",
        int: "questions left_out cells",
        float: "asked_share",
        bool: "exact",
        int | None: "draws seed",
    },
    levels=list[WordingLevel],
    quantiles=list[WordingQuantile],
)
ServedModel = shape(
    "ServedModel",
    "A name under which a model answered. first, last: when.",
    {str | None: "served_model system_fingerprint", int: "prompts", Time | None: "first last"},
)
Cost = shape(
    "Cost",
    """What an evaluation's answers cost, in `currency`, and how many were refused, filtered or cut off.

cost: null where unknown; cost_unresolved: the most that calls of unknown cost can have cost beside it. models: the
names under which the model answered, with how many prompts each answered; several: it changed in between.""",
    "evaluation_costs",
    complete=int,
    models=list[ServedModel],
    currency=str,
    but=("evaluation_id",),
)
ClusteredInterval = shape(
    "ClusteredInterval",
    "A metric's 95 % interval over resampled clusters, and how many times the variance that makes.",
    interval=Interval | None,
    design_effect=float | None,
)
Clustered = shape(
    "Clustered",
    "Intervals where questions belong together, such as those on one passage; `largest`: questions of one cluster.",
    {int: "questions clusters largest"},
    metrics=dict[str, ClusteredInterval],
)
EvaluationDocument = shape(
    "EvaluationDocument",
    """One evaluation with progress, metrics and provenance. noise: null where no prompt was asked twice.

cost: null where no provider served the model.""",
    EvaluationHeader,
    cost=Cost | None,
    progress=Progress,
    metrics=MetricValues,
    noise=RepeatNoise | None,
    axes=said(Axes | None, "Null where only orders were varied, or not all cells were asked."),
    wordings=said(Wordings | None, "Null where only orders were varied."),
    clustered=said(Clustered | None, "Null where every question stands for itself."),
    scopes=list[ScopeMetric],
    provenance=Provenance,
)
QuestionResult = shape(
    "QuestionResult",
    """What an evaluation made of a question: metrics and the counts behind them. `stored` below `expected`: not scored.

variants: those with exactly the question's own options; valid, correct: with a valid and with the right answer;
agreeing: with the answer of the first.""",
    "question_metrics",
    {int: "variants valid correct agreeing"},
)
EvaluationQuestion = shape("EvaluationQuestion", "A question of an evaluation with its text.", QuestionResult, text=str)
EvaluationQuestions = page(
    "EvaluationQuestions",
    "A page of an evaluation's questions, in the benchmark's order. `counts`: how many each filter keeps.",
    EvaluationQuestion,
    counts=dict[str, int],
)
Prediction = shape(
    "Prediction",
    "One prompt's result. `shown[p]` is the option at position p; inserted options are negative.",
    "prediction_detail",
)
PredictionPage = shape(
    "PredictionPage",
    "Predictions by question and variant, from `cursor` on. `next_cursor` is null on the last page.",
    {int: "limit", str | None: "next_cursor next"},
    items=list[Prediction],
)
Question = shape(
    "Question",
    "A benchmark's question. `answer` is the ordinal of the right option.",
    queries.QUESTION,
    options=list[str],
)
EvaluationQuestionDocument = shape(
    "EvaluationQuestionDocument",
    "A question as one evaluation asked it, with its predictions by variant.",
    evaluation_id=int,
    question=Question,
    expected=int,
    inserted=said(dict[str, str], "Inserted option (negative ordinal) to its text."),
    predictions=list[Prediction],
)
QuestionOutcome = shape("QuestionOutcome", "What one evaluation made of a question.", _HEADER, outcome=QuestionResult)
QuestionDocument = page(
    "QuestionDocument",
    "A question and its outcome in every evaluation that asks it, newest first.",
    QuestionOutcome,
    question=Question,
)
ListedModel = shape("ListedModel", "A model, with its revisions and public evaluations counted.", listings.MODELS)
ModelList = items("ModelList", "Every model, by name.", ListedModel)
ModelRevision = shape("ModelRevision", "One set of weights with one tokenizer in one precision.", listings.REVISIONS)
ModelDocument = shape(
    "ModelDocument",
    "A model with its revisions, newest first, and its rows of the leaderboard.",
    listings.MODEL,
    revisions=list[ModelRevision],
    evaluations=list[LeaderboardRow],
)
BenchmarkVersion = shape("BenchmarkVersion", "One content of a benchmark.", listings.BENCHMARKS)
BenchmarkList = items(
    "BenchmarkList", "Every benchmark version that may be seen, newest first within each name.", BenchmarkVersion
)
BenchmarkDocument = shape(
    "BenchmarkDocument",
    "A benchmark's public versions, newest first, and its rows of the leaderboard.",
    benchmark=str,
    versions=list[BenchmarkVersion],
    evaluations=list[LeaderboardRow],
)
ItemEstimate = shape("ItemEstimate", "A number over models, with its 95 % interval.", value=float, interval=Interval)
ItemReason = shape(
    "ItemReason",
    "Why a question is worth a second look, and what was found. A reason proves nothing.",
    reason=said(str, "A name, such as other_option; more may be added."),
    found=said(str, "What was found, as a sentence."),
)
Item = shape(
    "Item",
    """A question through the models that answered it. Options are ordinals of the question's own order, from 0.

difficulty: the mean over models of the share of its prompts that they have right. discrimination: correlation of
that share with the sum of all others; null where it does not vary. lead: the share of weighted votes for the rival,
the most voted option that is not the answer, less that for the answer.""",
    {int: "rank question_id answer rival", str: "external_id", str | None: "subject", float: "lead"},
    difficulty=ItemEstimate,
    discrimination=ItemEstimate | None,
    latent_key=said(int, "The option that is the likeliest key but the stated one."),
    log_odds=said(float, "How much likelier the answers are under another key than under the stated one."),
    suspicion=said(float, "What ranks items: lead − 0.3 · discrimination + 0.1 · log_odds."),
    reasons=list[ItemReason],
)
Reliability = shape(
    "Reliability",
    "Cronbach's alpha over models. kr20: every score is 0 or 1, so that alpha is KR-20.",
    {float: "alpha", Interval | None: "interval", bool: "kr20"},
)
WayOfAsking = shape(
    "WayOfAsking",
    "How a version was asked, of how many models; `evaluation` is one of them, and names the way.",
    {int: "evaluation shots models", str: "protocol variants"},
    part=said(str | None, "Which part of the benchmark; null: all of it."),
)
ItemList = page(
    "ItemList",
    "The questions of a benchmark version, those with a reason for a second look first. Null below models_needed.",
    Item,
    {str: "benchmark version", int: "models_needed questions"},
    way=WayOfAsking | None,
    ways=list[WayOfAsking],
    models=said(int, "Models whose answers were read; of very many, a part."),
    reliability=Reliability | None,
    queue=said(int, "How many of the first items have a reason for a second look."),
)
Protocol = shape(
    "Protocol",
    "How models are asked and their answers read. `digest` names the definition for good.",
    (tables.Protocol, ("shots", "digest", "definition", "created_at")),
    protocol=str,
)
ProtocolList = items("ProtocolList", "Every protocol that the registry holds, by name, shots and age.", Protocol)
PublishedResult = shape(
    "PublishedResult",
    "A number that a paper prints, as printed. `registry_metric`: ours of the same meaning, or null.",
    "published_results",
)
PublishedList = page("PublishedList", "A page of printed numbers, in the order of their tables.", PublishedResult)
Overall = shape(
    "Overall",
    "All that is queued or running, together.",
    {
        int: "evaluations prompts prompts_done shards_failed tokens_naive tokens_computed tokens_saved",
        float: "prompts_per_second",
        float | None: "seconds_left",
    },
)
LiveWorker = shape(
    "LiveWorker",
    "A worker that has shown a sign of life lately.",
    listings.WORKERS,
    {list[str] | None: "queues", dict[str, str]: "versions", str | None: "loaded_model", int | None: "loaded_revision"},
)
Queue = page(
    "Queue",
    "A page of unfinished evaluations, newest first, and who works.",
    ListedEvaluation,
    overall=Overall,
    queues_without_worker=list[str],
    workers=list[LiveWorker],
    differing_versions=said(dict[str, dict[str, int]], "Package to version to workers, where they differ."),
)
Named = shape("Named", "A suite by name and version.", name=str, version=int)
NamedSuite = shape("NamedSuite", "A suite by name, version and digest.", (tables.Suite, ("name", "version", "digest")))
ListedSuite = shape("ListedSuite", "A suite: what is asked of every model.", NamedSuite, title=str, created_at=Time)
SuiteList = items("SuiteList", "The newest version of every suite, by name.", ListedSuite)
SuiteDocument = shape(
    "SuiteDocument", "A suite with its definition, as its file has it.", ListedSuite, definition=dict[str, Any]
)
BoardDeprecation = shape(
    "BoardDeprecation",
    "Why a board is deprecated, since when, and which board to use instead; null: none, or none that you may see.",
    {str: "reason", Time: "at", str | None: "successor"},
)
DeprecatedBoard = shape(
    "DeprecatedBoard", "A board and whether it is deprecated.", board=str, deprecated=BoardDeprecation | None
)
ListedBoard = shape(
    "ListedBoard",
    "A board: a suite on certain benchmarks, with the columns to show.",
    {str: "board title url", int: "version", Digest: "digest", list[str]: "columns"},
    suite=Named,
    deprecated=BoardDeprecation | None,
)
BoardList = items("BoardList", "The newest version of every public board, by name.", ListedBoard)
BoardColumn = shape(
    "BoardColumn",
    "A column of a board: a metric on a set of variants.",
    {str: "name metric variants better", str | None: "protocol", int: "definition_version"},
)
BoardEntry = shape(
    "BoardEntry",
    "One evaluation that a board asks of every model.",
    {
        str: "task benchmark version protocol variants",
        Digest: "content_digest protocol_digest",
        int: "shots questions",
        dict[str, Any]: "question_filter",
    },
)
BoardEvaluation = shape(
    "BoardEvaluation",
    "The sealed evaluation behind an entry of a board. Old snapshots say nothing of its engines and copies.",
    {int: "evaluation replicate", Digest: "seal", NotRequired[bool]: "mixed_engines copies_withdrawn"},
)
BoardNeighbour = shape(
    "BoardNeighbour",
    """A model against the one ranked next above it. Null: the two are not compared, as on few questions.

`told_apart` holds for all pairs of the column at once, `p_holm` is corrected for all of them, `p_value` for none.""",
    Above,
    model=str,
    revision=int,
)
BoardValue = shape(
    "BoardValue",
    """A model's value in one column. Models of one `tier` are not told apart; ranks wait until a row is complete.

`rank_interval` and `tier` are of this model for itself, `all_rank_interval` and `all_tier` of all models at once.
Where questions belong together, `clusters` are how many independent groups they are, `cluster_interval` and the
ranks are over resampled clusters, and `design_effect` is how many times the variance that makes.""",
    {
        float | None: "value",
        int: "n",
        Interval | None: "interval",
        NotRequired[int]: "clusters",
        NotRequired[Interval | None]: "cluster_interval",
        NotRequired[float | None]: "design_effect",
        int | None: "rank tier all_tier",
        RankInterval | None: "rank_interval all_rank_interval",
    },
    above=NotRequired[BoardNeighbour | None],
)
BoardPairs = shape(
    "BoardPairs",
    """All pairs of a column's ranked models, compared at once; `neighbours` are next to each other in the ranking.

A pair is told apart where its difference is more than about `critical_value` standard errors. `standard_error` is
that of the median pair's difference.""",
    Together,
)
SelectedRow = shape(
    "SelectedRow",
    "A model revision of a selection. `evaluations` runs along the entries; null: not sealed yet.",
    (tables.Model, ("family", "parameters")),
    (tables.ModelRevision, ("dtype", "quantisation")),
    {str: "model", int: "revision", dict[str, Any]: "identity", bool: "complete"},
    evaluations=list[BoardEvaluation | None],
    values=said(dict[str, BoardValue], "Column to value."),
)
BoardRow = shape(
    "BoardRow",
    """A model revision on a board. `evaluations` runs along the board's entries; null: not sealed yet.

cost: what providers charged for them, as far as it is known. tokens_per_answer: of thought and answer, the mean.""",
    SelectedRow,
    cost=float | None,
    tokens_per_answer=float | None,
    conflict_of_interest=said(
        str | None, "As stated for its evaluations: none, or what it is; null: not stated for all."
    ),
)
Bootstrap = shape("Bootstrap", "How the intervals of a board were drawn.", resamples=int, seed=int, confidence=float)
Unranked = shape(
    "Unranked",
    "A model that a column does not rank, why, and the commands that ask what is missing; column null: every one.",
    {str: "model reason", int: "revision", str | None: "column", list[str]: "commands"},
)
BoardRules = shape(
    "BoardRules",
    "What a board asks of submissions; null and empty lists: not limited. `sentences`: the enforced ones in words.",
    SubmissionRules,
    sentences=list[str],
)
Board = shape(
    "Board",
    """A board as it stood at a time. `digest` names it for good, `sql` reads the same rows from the database.

currency: of what providers charged; null: none charged anything. submissions: its rules; null: it sets none.""",
    {
        int: "snapshot_version board_version sealed_evaluations",
        str: "board title text sort permalink sql",
        Digest: "board_digest digest",
        NotRequired[int]: "withdrawals",
        str | None: "currency",
        Time: "as_of",
    },
    suite=NamedSuite,
    columns=list[BoardColumn],
    entries=list[BoardEntry],
    bootstrap=Bootstrap,
    together=NotRequired[said(dict[str, BoardPairs], "Column to all of its pairs.")],
    weights=NotRequired[said(dict[str, int], "Task to how much it counts, where not 1.")],
    models=NotRequired[said(dict[str, Any], "Which models it takes; absent: all.")],
    rows=list[BoardRow],
    chance=said(dict[str, float], "Column of accuracy to what guessing gives there."),
    unranked=list[Unranked],
    submissions=BoardRules | None,
    deprecated=BoardDeprecation | None,
)
SelectedBoard = shape(
    "SelectedBoard",
    """Tasks, weights, columns and models that were chosen from a board, with ranks and tiers of these alone.

digest: the SHA-256 of `selection`, which is canonical JSON. snapshot: what it was chosen from. url: its page.""",
    {str: "board selection sort url", Digest: "snapshot digest", Time: "as_of"},
    columns=list[BoardColumn],
    entries=list[BoardEntry],
    weights=said(dict[str, int], "Task to how much it counts."),
    bootstrap=Bootstrap,
    together=said(dict[str, BoardPairs], "Column to all of its pairs."),
    rows=list[SelectedRow],
    chance=said(dict[str, float], "Column of accuracy to what guessing gives there."),
    unranked=list[Unranked],
)
ListedSnapshot = shape(
    "ListedSnapshot",
    "A board as it stood at a time: where to find it.",
    {Time: "as_of", Digest: "digest", int: "board_version", str: "url"},
    signature=said(Signature | None, "The first that covers it; null: none does yet."),
)
SnapshotList = items("SnapshotList", "Every snapshot of a board, newest first.", ListedSnapshot)
BoardEvent = shape(
    "BoardEvent",
    "Something that happened to a board, in a sentence. models: those that it is about.",
    kind=one_of(
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
    ),
    text=str,
    models=list[str],
)
BoardChange = shape(
    "BoardChange",
    "What a snapshot brought. link: its position in the chain; snapshot: null where none was changed.",
    {Time: "at", int | None: "link", Digest | None: "snapshot"},
    events=list[BoardEvent],
)
BoardChangelog = shape(
    "BoardChangelog", "What happened to a board, newest first.", board=str, changes=list[BoardChange]
)
RegisteredModel = shape(
    "RegisteredModel",
    "A model revision that was asked for. `added`: whether it is new; usable once its state is `ready`.",
    {str: "model kind state url", int: "revision", str | None: "dtype quantisation", bool: "added"},
)
ImportedBenchmark = shape(
    "ImportedBenchmark",
    "A benchmark version that was sent. `imported`: whether it is new.",
    {
        str: "benchmark version visibility",
        int: "questions few_shot_examples",
        Digest: "content_digest",
        bool: "imported",
    },
)
ChangedVisibility = shape(
    "ChangedVisibility",
    "Who may see a benchmark from now on, and in which versions that was set.",
    {str: "benchmark visibility", list[str]: "versions"},
)
AskedEvaluations = shape(
    "AskedEvaluations",
    "Every evaluation that was asked for, and those of them that are new.",
    evaluations=list[int],
    new=list[int],
)
EvaluationState = shape("EvaluationState", "How an evaluation stands after it was moved.", evaluation=int, state=str)
ImportedOutputs = shape(
    "ImportedOutputs",
    "The evaluation that outputs became. `stated`: what the file states as its score, beside ours.",
    evaluation=int,
    stated=dict[str, Any] | None,
)
DistinctPrompts = shape(
    "DistinctPrompts",
    "Fewest and most different prompts that show a question; null where nothing is stored.",
    min=int | None,
    max=int | None,
)
Sample = shape(
    "Sample",
    "The evaluation asks `questions` of so many: those with the smallest SHA-256 of `seed:question id`.",
    {int: "questions of seed"},
)
EvaluationMetrics = shape(
    "EvaluationMetrics",
    """An evaluation's metrics; `scored` of its `questions` have all their variants. per_question: where asked for.

noise: over all questions; null where no prompt was asked twice.""",
    {int: "evaluation questions scored", bool: "complete"},
    metrics=MetricValues,
    intervals=said(dict[str, Interval | None], "Metric to its 95 % interval, once sealed."),
    distinct_prompts=DistinctPrompts,
    noise=RepeatNoise | None,
    asked=said(str | None, "In how many orders or variants, in words."),
    chance=said(float | None, "Accuracy that guessing gives over all questions."),
    clustered=said(Clustered | None, "Null where every question stands for itself."),
    sample=said(Sample | None, "Null if its questions are no sample. Intervals are for all that it was drawn from."),
    undefined=said(dict[str, str], "Metric to why it has no value, where it has none."),
    per_question=NotRequired[dict[str, MetricValues]],
)
Verification = shape(
    "Verification",
    "What does not match of a sealed evaluation; `ok`: nothing. `questions`: those with a wrong leaf.",
    {int: "evaluation", Digest | None: "seal", int | None: "seal_version", bool: "ok", list[str]: "problems questions"},
)
ImportedSuite = shape(
    "ImportedSuite",
    "A suite that was sent. `new`: whether it is a new version.",
    {str: "suite", int: "version", Digest: "digest", bool: "new"},
)
ImportedBoard = shape(
    "ImportedBoard",
    "A board that was sent. `new`: whether it is a new version.",
    {str: "board", int: "version", Digest: "digest", bool: "new"},
)
EstimatedOfModel = shape(
    "EstimatedOfModel",
    "The same of a model that is registered. `prompts_sampled`: how many were tokenised.",
    estimate.Estimate,
)
EstimatedEvaluation = shape(
    "EstimatedEvaluation",
    """What one evaluation would cost. `evaluation`: one that is there already. `reason`: why something is null.

cost, cost_limit: what a provider would charge, as earlier answers came out and at most; 0 for any other model.""",
    EstimatedOfModel,
    but=("model", "revision", "prompts_sampled"),
)
NeededForMetric = shape(
    "NeededForMetric",
    "What one metric needs. variance: of its values in the `pilot`; if that is null, the largest possible.",
    {str: "metric", int: "sample", float: "half_width variance", int | None: "pilot"},
)
Estimate = shape(
    "Estimate",
    """What some evaluations would cost together; null where a part is not known. `workers`: how many are alive.

If a precision was given, `sample` of `of` questions is the smallest whose 95 % intervals reach at most that far to
either side. pilot: the evaluation of the same model, benchmark and protocol that it follows from; null: the worst case.
half_width: the widest of the metrics' with that sample.""",
    (estimate.Estimate, estimate.ESTIMATED),
    estimates=list[EstimatedOfModel],
    currency=str | None,
    workers=int,
    precision=NotRequired[float],
    sample=NotRequired[int],
    of=NotRequired[int],
    half_width=NotRequired[float],
    pilot=NotRequired[int | None],
    metrics=NotRequired[list[NeededForMetric]],
)
SubmittedModel = shape(
    "SubmittedModel",
    "A model as it was asked for. `location`: on the hub; `endpoint`: the name of one.",
    {str: "name kind", NotRequired[str]: "location endpoint", str | None: "revision dtype"},
)
EmbargoedResult = shape(
    "EmbargoedResult",
    "A sealed evaluation that only its submitter and maintainers see for now. `metrics`: over all of its questions.",
    {int: "evaluation", str: "benchmark variants"},
    metrics=dict[str, float | None],
)
Submission = shape(
    "Submission",
    "A request to run a test suite on a model. `revision`: what was registered; `problem`: why it failed.",
    (people.Submission, SUBMISSION),
    {
        int: "submission",
        str: "requester",
        str | None: "decided_by revision revision_state problem",
        list[int]: "evaluations",
    },
    model=SubmittedModel,
    embargoed=said(list[EmbargoedResult], "Sealed evaluations under embargo, on benchmarks that the reader may see."),
)
SubmissionList = page(
    "SubmissionList", "A page of submissions: those that wait for a decision first, then the newest.", Submission
)
SubmissionEstimate = shape(
    "SubmissionEstimate",
    """What a submission would cost. `problem`: why it could not be queued; then nothing else is known.

currency: of what a provider would charge; null: none is asked.""",
    {
        NotRequired[int]: "questions prompts prompts_left workers",
        NotRequired[int | None]: "tokens_naive tokens_shared",
        NotRequired[float | None]: "seconds cost cost_limit",
        NotRequired[str | None]: "currency",
        str | None: "problem",
    },
    estimates=list[EstimatedEvaluation],
)
QueryAnswer = shape(
    "QueryAnswer",
    """The rows of a query, or the first of them; columns may repeat. Times are UTC text, bytes hexadecimal digits.

types: DuckDB's, by column. as_of: when the database held what the query read.""",
    {list[str]: "columns types notes", bool: "truncated", float: "elapsed_s", str: "as_of"},
    rows=list[list[Any]],
)
SavedQuery = shape(
    "SavedQuery",
    "A query under a permanent address: `slug` is its name there.",
    (people.SavedQuery, SAVED),
    query=str,
    owner=str,
)
SavedQueryList = items("SavedQueryList", "The saved queries that the viewer may open.", SavedQuery)
Account = shape(
    "Account",
    "A person or program. `password`: whether it can sign in.",
    (people.Account, ACCOUNT),
    {str: "account", bool: "password disabled"},
)
AccountList = items("AccountList", "Every account, by name.", Account)
Token = shape(
    "Token",
    "A token, but not its secret: only its first letters are known.",
    (people.ApiToken, TOKEN),
    {str: "account begins", list[str]: "scopes"},
)
NewToken = shape("NewToken", "A token with its secret: shown this once.", Token, token=str)
TokenList = items("TokenList", "The tokens of an account, newest first.", Token)
AuditEvent = shape("AuditEvent", "What was done, or refused, and by whom.", (people.AuditEvent, AUDIT))
AuditList = page("AuditList", "A page of the audit trail, newest first.", AuditEvent)
