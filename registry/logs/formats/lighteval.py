"""lighteval's details, `details/MODEL/DATE/details_TASK_DATE.parquet`, from `--save-details`: a row for each question.

    {"doc": {"query": "…", "choices": [" A", " B"], "gold_index": 1, "fewshot_samples": […], …},
     "model_response": {"logprobs": [-1.2, -0.3], "text": [], …}, "metric": {"acc": 1}}

If choices are scored, the answer is the highest log-probability, the first on a tie. If text is generated, the answer
is the text if that is a label or an option. Metrics that extract an answer, such as `extractive_match`, do not record
it: the text is read again, and of several readings the reading that agrees with the score is taken. If choices are
labels, the order of the options is read from the query. The format is that of lighteval 0.13.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from registry.benchmarks.lines import Place, quote, shorten
from registry.errors import IngestError
from registry.files.allowance import Allowance
from registry.logs.documents import Log, load_json, members, read_description
from registry.logs.files import results_beside
from registry.logs.format import LIGHTEVAL, Format
from registry.logs.labels import BARE, Written, certain, read_label
from registry.logs.listing import Listing, listing
from registry.logs.means import fields_of
from registry.logs.prompts import PromptFinder, find_listed_order
from registry.logs.record import (
    NOT_MULTIPLE_CHOICE,
    SEVERAL_RIGHT,
    Item,
    Known,
    KnownQuestion,
    Recorded,
    Seen,
    Source,
    Unusable,
    match_options,
    only,
    optional_text,
    record_of,
)
from registry.logs.rereading import reread
from registry.logs.values import likelihood_of, object_of, text_of, texts_of
from registry.prompting.labels import LETTERS
from registry.untrusted import decode

SCORED: Final = "acc"
"""The metric that compares log-probabilities as they are; others normalise them first."""
_WHOLE: Final = ("acc", "em", "")
"""Metrics that compare the whole text with the key."""
_METRICS: Final = (SCORED, "em", "extractive_match", "pass", "gpqa_pass", "expr_gold_metric")
_DOUBTED: Final = 0.01
"""If the scores of more than this share of the answers read again contradict the text, the log is doubted."""
_LONGEST_NUMBER: Final = 4


def read_lighteval(path: Path, _head: None, questions: Mapping[str, KnownQuestion]) -> Log:
    """Return the answers of a task. Several generations for one question are its variants 0, 1, ….

    Raises IngestError for a row without a known question, without a list of its options, or with several right choices.
    """
    from registry.files.parquet import parquet_rows  # loads pyarrow

    finder = PromptFinder(questions)
    recorded: list[Recorded] = []
    allowance = Allowance(path.name, kept=True)
    shots = 0
    metrics: set[str] = set()
    task = None
    doubts: list[tuple[int, int]] = []
    for number, row in enumerate(parquet_rows(path), start=1):
        place = Item(path, f"row {number}")
        doc = members(place, row, "doc", dict)
        task = doc.get("task_name") or task
        shots = max(shots, len(doc.get("fewshot_samples") or []))
        answers = _build_recorded(place, row, finder)
        metrics.update(row.get("metric") or ())
        allowance.take(sum(len(answer.text or "") for answer, _ in answers), records=len(answers))
        doubts += [(len(recorded) + at, doubt) for at, (_, doubt) in enumerate(answers) if doubt is not None]
        recorded += [answer for answer, _ in answers]
    if not recorded:
        raise IngestError(f"{path.name}: contains no rows; import the details of a finished run")
    if len(doubts) > max(1.0, _DOUBTED * len(recorded)):
        for at, position in doubts:
            recorded[at] = replace(recorded[at], position=position, answer=None)
    metric, _ = metric_of(dict.fromkeys(sorted(metrics), 0.0))
    about, stated = _read_results(path, task, metric)
    remarks = []
    if not metric:
        remarks.append(
            f"its metrics ({shorten(', '.join(sorted(metrics))) or 'none'}) normalise log-probabilities or judge "
            "texts; the answers imported are the highest log-probabilities, or the labels written"
        )
    return Log(LIGHTEVAL, recorded, about, metric, stated, shots, remarks)


def metric_of(scores: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return the metric that marks answers as right and its value: a known metric, else the only one."""
    names = [name for name in scores if "stderr" not in name and "norm" not in name]
    known = [name for metric in _METRICS for name in names if name.split(":")[0].split("@")[0] == metric]
    named = next(iter(known or (names if len(names) == 1 else [])), "")
    return named, _read_number(scores.get(named))


def answer_of(
    text: str, options: Sequence[str], gold: int, metric: str, score: float | None
) -> tuple[Written, int | None]:
    """Return the answer of a text as a label, and the position that the text states if the score contradicts it.

    The log does not record the extract, and metrics that extract find more than a letter alone. So the score decides
    whether the right option was read, even if our rules read another.
    """
    label = read_label(text.strip(), options, right=gold if score == 1 else None)
    if metric in _WHOLE or score is None or label.positions[BARE] is not None:
        return label, None
    read = reread(text, options)
    reading, *others = read.positions
    if score == 1:
        believed: int | None = gold
    elif reading != gold:
        believed = reading
    else:
        believed = next((other for other in (read.thought, *others) if other not in (None, gold)), None)
    return certain(text, believed), None if reading is None or reading == believed else reading


@dataclass(frozen=True, slots=True)
class _Row:
    """A row as written, for audits and imports.

    choices: as the row has them. shared: whether they are letters in one text, the same for all questions, as in
    MMLU-Pro. gold: index of the right one. likelihoods: of the choices; empty if texts were written. written: each text
    with its scored part and its thought. metric, stated: the metric that marks answers as right, and its value.
    """

    query: str
    choices: tuple[str, ...]
    shared: bool
    gold: int
    likelihoods: tuple[float, ...]
    written: tuple[tuple[str, str, str | None], ...]
    metric: str
    stated: float | None
    fields: Mapping[str, str]

    def answers(self, options: Sequence[str]) -> "list[_Answer] | str":
        """Return the row's answers, given the options as shown, or the problem if there are none."""
        n_options = len(options)
        if self.gold >= n_options:
            return f"gold_index {self.gold} is not one of its {n_options} choices"
        if self.likelihoods:
            # For metrics that use an unconditioned query, its values follow these.
            values = self.likelihoods[:n_options]
            if len(values) < n_options:
                return f"logprobs: {len(values)} values for {n_options} positions"
            if any(map(math.isnan, values)):
                return f"logprobs: {sum(map(math.isnan, values))} of {n_options} are no numbers"
            scored = self.stated if self.metric.split(":")[0].split("@")[0] == SCORED else None
            known = None if -math.inf in values else tuple(min(0.0, value) for value in values)
            return [_Answer(values.index(max(values)), known, None, None, None, scored, None)]
        stated = self.stated if len(self.written) == 1 else None
        answers = []
        for text, scored_text, thought in self.written:
            label, doubt = answer_of(scored_text, options, self.gold, self.metric, stated)
            answers.append(_Answer(None, None, label, text, thought, stated, doubt))
        return answers or "has neither log-probabilities nor a text"


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer of a row. doubt: the position that its text states if its score contradicts it."""

    position: int | None
    logprobs: tuple[float, ...] | None
    label: Written | None
    text: str | None
    thought: str | None
    stated: float | None
    doubt: int | None


def _read_row(place: str, row: Mapping[str, Any]) -> _Row | Unusable:
    """Read a row; return the problem if it lacks something or contradicts itself."""
    doc, response = object_of(row.get("doc")), object_of(row.get("model_response"))
    choices = doc.get("choices")
    shared = isinstance(choices, str)
    listed = tuple(choices or ()) if shared else tuple(choice.strip() for choice in texts_of(choices))
    if len(listed) < 2:
        return Unusable(place, "has no choices", NOT_MULTIPLE_CHOICE)
    gold = only(doc.get("gold_index"))
    if isinstance(gold, bool) or not isinstance(gold, int) or not 0 <= gold < len(listed):
        name = SEVERAL_RIGHT if isinstance(gold, list) and len(gold) > 1 else "unusable-answer"
        shown = quote(doc.get("gold_index"))
        return Unusable(place, f"gold_index {shown} is not one of its {len(listed)} choices", name)
    likelihoods = tuple(likelihood_of(value) for value in response.get("logprobs") or ())
    raw = texts_of(response.get("text"))
    # The scored texts lack the parts between tags of reasoning.
    scored = texts_of(response.get("text_post_processed")) or raw
    raw = raw or scored
    if len(scored) != len(raw):
        return Unusable(place, f"has {len(raw)} texts, but {len(scored)} in text_post_processed; the file is damaged")
    thoughts = response.get("reasonings")
    if not isinstance(thoughts, list) or len(thoughts) != len(raw):
        thoughts = [None] * len(raw)
    metric, stated = metric_of(object_of(row.get("metric")))
    return _Row(
        str(doc.get("query") or ""),
        listed,
        shared,
        gold,
        tuple(math.nan if value is None else value for value in likelihoods),
        tuple(zip(raw, scored, (text_of(thought) for thought in thoughts), strict=True)),
        metric,
        stated,
        _read_fields(doc),
    )


def _build_recorded(place: Place, raw: Mapping[str, Any], finder: PromptFinder) -> list[tuple[Recorded, int | None]]:
    """Return a row's answers with their question, and for each the text's position if it contradicts the score."""
    row = _read_row(place.describe(), raw)
    if isinstance(row, Unusable):
        place.reject(f"{row.detail}; a question has several options, and one of them is right")
    question, following = finder.find(place, row.query)
    choices = row.choices[: len(question.options)] if row.shared else row.choices
    order = _match_order(place, question, choices, following)
    answers = row.answers([question.options[item] for item in order])
    if isinstance(answers, str):
        place.reject(f"{answers}; import the details of a finished run of this benchmark")
    key = certain(row.choices[row.gold], row.gold)
    build = partial(Recorded, place, question, key=key, fields=row.fields)
    return [
        (
            build(
                variant,
                order,
                True,
                answer.position,
                logprobs=answer.logprobs,
                text=optional_text(place, answer.text) or ("" if answer.thought else None),
                stated=answer.stated,
                reasoning=optional_text(place, answer.thought) or None,
                answer=answer.label,
            ),
            answer.doubt,
        )
        for variant, answer in enumerate(answers)
    ]


def _read_fields(doc: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that a task added to a document, which some versions write as JSON."""
    specific = doc.get("specific")
    if isinstance(specific, str):
        try:
            specific = decode(specific)
        except ValueError:
            return {}
    return fields_of(object_of(specific))


def _match_order(place: Place, question: KnownQuestion, choices: Sequence[str], following: str) -> tuple[int, ...]:
    """Return the options as shown: the choices, or if these are labels, the texts behind them in the query."""
    labels = [_parse_plain_label(choice) for choice in choices] == list(range(len(question.options)))
    listed = find_listed_order(question, following) if labels else None
    if listed is not None and not choices[0].isdecimal():
        return listed  # the options may be letters, too
    matched = match_options(question, choices)
    if matched is not None and len(matched) == len(question.options):
        return matched
    if not labels:
        place.reject(
            f"choices {quote(list(choices))} are neither labels nor the options of question {question.external_id}: "
            f"{quote(list(question.options))}"
        )
    if listed is None:
        place.reject(
            f'its query does not list the options of question {question.external_id} behind labels such as "A.", so '
            "that their order is unknown; give the answers as JSON Lines"
        )
    return listed


def _parse_plain_label(choice: str) -> int | None:
    """Return the position of a choice that is a letter, such as `A` or `(A)`, or a whole number from 0."""
    letter = choice.strip("()[].: ").upper()
    if len(letter) == 1 and letter in LETTERS:
        return LETTERS.index(letter)
    return int(choice) if choice.isdecimal() and len(choice) < _LONGEST_NUMBER else None


def _read_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _read_results(path: Path, task: Any, metric: str) -> tuple[dict[str, str], float | None]:
    """Return (task and model, the task's overall score) from `results/MODEL/results_DATE.json`, if it exists."""
    about: dict[str, Any] = {"task": task}
    date = path.parent.name
    folder = next((parent for parent in path.parents if parent.name == "details"), None)
    if folder is None:
        return read_description(path, about), None
    file = folder.with_name("results") / path.parent.parent.relative_to(folder) / f"results_{date}.json"
    if not file.is_file():
        return read_description(path, about), None
    document = load_json(file)
    general = document.get("config_general") if isinstance(document, dict) else None
    if isinstance(general, dict):
        about["model"] = general.get("model_name")
    results = document.get("results") if isinstance(document, dict) else None
    scores = results.get(task) if isinstance(results, dict) else None
    return read_description(path, about), _read_number(scores.get(metric)) if isinstance(scores, dict) else None


# Records as written, for an audit


def _list_sources(path: Path, _head: None, _known: Known) -> list[Source]:
    from registry.files.parquet import parquet_columns, parquet_rows  # loads pyarrow

    columns = parquet_columns(path)
    if not columns:
        raise IngestError(f"{path.name}: is no Parquet file, or a damaged one; fetch it again")
    if not FORMAT.keys.issubset(columns):
        return []
    remarks: list[str] = []
    task = path.stem.removeprefix("details_").rsplit("_", 1)[0]
    folder = next((parent for parent in path.parents if parent.name == "details"), None)
    model, scores = path.parent.parent.name, {}
    declared = False
    if folder is not None:
        relative = path.parent.parent.relative_to(folder)
        results = results_beside(folder.with_name("results") / relative / f"results_{path.parent.name}.json", remarks)
        scores = dict(object_of(object_of(results.get("results")).get(task)))
        about = object_of(results.get("config_general"))
        model = str(about.get("model_name") or relative)
        declared = about.get("max_samples") is not None
    stated = metric_of(scores)[1]
    records = _read_records(parquet_rows(path))
    return [Source(path, LIGHTEVAL, model, task, records, stated, declared, remarks=remarks)]


def _read_records(rows: Iterator[dict[str, Any]]) -> Iterator[Seen | Unusable]:
    for number, row in enumerate(rows, start=1):
        yield from record_of(f"row {number}", partial(_build_seen, f"row {number}", number, row))


def _build_seen(place: str, number: int, raw: Mapping[str, Any]) -> Iterator[Seen | Unusable]:
    row = _read_row(place, raw)
    if isinstance(row, Unusable):
        yield row
        return
    shown = listing(row.query)
    labelled = all(_parse_plain_label(choice) is not None and not choice.isdecimal() for choice in row.choices)
    options = shown.options if labelled and shown is not None else row.choices
    if len(options) != len(row.choices) and not row.shared:
        name = "truncated-prompt" if len(options) < len(row.choices) else "unusable-answer"
        yield Unusable(place, f"shows {len(options)} options and scores {len(row.choices)}", name)
        return
    answers = row.answers(options)
    if isinstance(answers, str):
        yield Unusable(place, answers)
        return
    doc, response = object_of(raw.get("doc")), object_of(raw.get("model_response"))
    tokens = list(response.get("input_tokens") or ())
    doubled = len(tokens) > 1 and tokens[0] == tokens[1] and tokens[0] in (0, 1, 2, 128000)
    problems = (("doubled-begin-token", f"token {tokens[0]} begins the prompt twice"),) if doubled else ()
    for variant, answer in enumerate(answers):
        doubts: tuple[tuple[str, str], ...] = ()
        if answer.doubt is not None:
            detail = (
                f"reads as {LETTERS[answer.doubt]}, {LETTERS[row.gold]} is right, and its score is {answer.stated:g}"
            )
            doubts = (("score-contradicts-answer", detail),)
        yield Seen(
            place,
            str(doc.get("id") if doc.get("id") is not None else number),
            _extract_question(row.query, str(doc.get("instruction") or ""), shown),
            options,
            row.gold,
            answer.position,
            None if len(answers) < 2 else variant,
            answer.stated,
            _build_prompt(row.query, doc, response),
            answer.text,
            answer.thought,
            scored=bool(row.likelihoods),
            problems=problems + doubts,
            answer=answer.label,
            fields=row.fields,
        )


def _extract_question(query: str, instruction: str, shown: Listing | None) -> str:
    """Return the question of a query, without its instruction and options."""
    if shown is None or (instruction.strip() and query.startswith(instruction)):
        text = (query if shown is None else shown.before).removeprefix(instruction)
    else:
        text = shown.question
    text = text.strip().removeprefix("Question:").strip()
    return re.sub(r"\b(?:Answer|Options|Choices):$", "", text).rstrip()


def _build_prompt(query: str, doc: Mapping[str, Any], response: Mapping[str, Any]) -> str:
    """Return the prompt that was sent, or a prompt joined from its parts if the row lacks it."""
    instruction = str(doc.get("instruction") or "")
    shots = [object_of(shot) for shot in doc.get("fewshot_samples") or ()]
    examples = [f"{shot.get('query', '')} {_format_example_answer(shot)}".removeprefix(instruction) for shot in shots]
    parts = (instruction.strip(), *examples, query.removeprefix(instruction))
    return text_of(response.get("input")) or "\n\n".join(part for part in parts if part)


def _format_example_answer(shot: Mapping[str, Any]) -> str:
    choices, gold = texts_of(shot.get("choices")), only(shot.get("gold_index"))
    return choices[gold].strip() if isinstance(gold, int) and 0 <= gold < len(choices) else ""


FORMAT: Final = Format(
    LIGHTEVAL,
    "lighteval",
    "columns",
    frozenset({"doc", "metric", "model_response"}),
    {
        "doc": {"query": "…", "choices": [" A", " B"], "gold_index": 1},
        "model_response": {"logprobs": [-1.2, -0.3]},
        "metric": {"acc": 1},
    },
    _list_sources,
    program="lighteval, the Parquet file of a task written with `--save-details`",
    recognised="columns `doc`, `metric`, `model_response`",
    becomes="Variant 0, with log-probabilities if choices were scored, else a variant for each text",
    scores="keep details/ and results/ together, written with --save-details",
    paragraph=(
        "**lighteval.** The question is found in the query, after any examples. If choices are letters, the order "
        "is the one that the query lists. A written answer counts if it is a label, or a choice. The metrics that "
        "look for an answer in a longer text (`extractive_match`, `pass@k`) do not say which they found. The text "
        "is then read again, and of several readings the one that agrees with the score counts; if more than 1 % "
        "of the scores contradict their texts, the log is refused. Keep `details/` and `results/` together, "
        "because the overall score is in the latter."
    ),
    read_log=read_lighteval,
)
