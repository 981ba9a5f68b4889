"""Writes logs in seven formats from the same items, with one planted fault or none, and labels in many forms."""

import csv
import json
import random
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.benchmarks.contract import QuestionRecord, read_benchmark
from registry.prompting.labels import LETTERS

SAMPLES = Path(__file__).parents[2] / "registry" / "benchmarks" / "samples"
INSTRUCTION = 'Answer the multiple choice question. End with a line "Answer: X", where X is one of {labels}.\n\n'


@dataclass(frozen=True)
class Item:
    """A prompt and its answer.

    said: the model's text. recorded: the position that the program read, None for no answer.
    """

    id: str
    question: str
    options: tuple[str, ...]
    key: int
    said: str
    recorded: int | None
    score: float
    prompt: str
    epoch: int = 1
    finish: str = "stop"


Form = Callable[[int, tuple[str, ...]], Any]
"""(position, options) → the label as a log writes it."""

FORMS: dict[str, Form] = {
    "letters": lambda at, _: LETTERS[at],
    "small letters": lambda at, _: LETTERS[at].lower(),
    "square brackets": lambda at, _: f"[{LETTERS[at]}]",
    "round brackets": lambda at, _: f"({LETTERS[at].lower()})",
    "full width": lambda at, _: chr(ord("Ａ") + at),
    "option before": lambda at, _: f"Option {LETTERS[at]}",
    "text behind": lambda at, options: f"{LETTERS[at]}. {options[at]}",
    "text": lambda at, options: options[at],
    "text in capitals": lambda at, options: options[at].upper(),
    "digits from 0": lambda at, _: str(at),
    "digits from 1": lambda at, _: str(at + 1),
    "bold": lambda at, _: f"**{LETTERS[at]}**",
    "boxed": lambda at, _: f"$\\boxed{{{LETTERS[at]}}}$",
    "in parentheses of LaTeX": lambda at, _: f"\\({LETTERS[at]}\\)",
    "in a tag": lambda at, _: f"<answer>{LETTERS[at]}</answer>",
    "in JSON": lambda at, _: f'{{"answer": "{LETTERS[at]}"}}',
    "Chinese": lambda at, _: f"选{LETTERS[at]}",
    "text behind a dash": lambda at, options: f"{LETTERS[at]} - {options[at]}",
}


@dataclass
class Log:
    """The items of a run, and the statements of the program about it.

    limit: the declared number of questions, if any.
    form: the form of the answers that were read.
    keyed: the form of the right options.
    """

    items: list[Item]
    task: str = "mmlu"
    model: str = "org/model"
    stated: float | None = None
    limit: int | None = field(default=None)
    form: str = "letters"
    keyed: str = "letters"

    def label(self, at: Item) -> Any:
        """Return the answer that was read, in the log's form."""
        return "" if at.recorded is None else FORMS[self.form](at.recorded, at.options)

    def key(self, at: Item) -> Any:
        """Return the right option, in the log's form."""
        return FORMS[self.keyed](at.key, at.options)

    @property
    def accuracy(self) -> float:
        """Return the accuracy that the program states."""
        return self.stated if self.stated is not None else sum(item.score for item in self.items) / len(self.items)


def shown(question: str, options: tuple[str, ...], labels: str = LETTERS) -> str:
    """Return a question with its options as a prompt shows them."""
    return "\n".join([question, *(f"{labels[at]}. {text}" for at, text in enumerate(options)), "Answer:"])


def prompt_of(
    question: str, options: tuple[str, ...], named: str | None = None, examples: str = "", labels: str = LETTERS
) -> str:
    """Return the whole prompt of a question."""
    instruction = INSTRUCTION.format(labels=named or ", ".join(labels[: len(options)]))
    return instruction + examples + shown(question, options, labels)


@cache
def sample(benchmark: str) -> tuple[QuestionRecord, ...]:
    """Return the questions of a packaged sample whose options all differ."""
    questions = read_benchmark(SAMPLES / f"{benchmark}.jsonl").questions
    return tuple(question for question in questions if len(set(question.options)) == len(question.options))


def clean(seed: int, benchmark: str = "mmlu", count: int = 120, form: str = "letters", keyed: str = "letters") -> Log:
    """Return a run of a model that answers two of three questions correctly and words its answers in many ways."""
    draw, questions, items = random.Random(seed), sample(benchmark), []
    labels = SHOWN.get(form, LETTERS)
    for question in draw.sample(questions, min(count, len(questions))):
        chosen = question.answer if draw.random() < 0.66 else draw.randrange(len(question.options))
        question_key = question.text, tuple(question.options), question.answer
        items.append(item(draw, question.external_id, *question_key, chosen, labels))
    return Log(items, task=f"{benchmark}_{seed}", limit=len(items), form=form, keyed=keyed)


SHOWN = {"digits from 1": "123456789", "small letters": LETTERS.lower()}
"""The labels in prompts for each form; a form that is not listed has letters."""


WAYS = (
    "Answer: {letter}",
    "{letter}",
    "The answer is {letter}.",
    "Let us look at each option.\n\nSome do not fit. **Answer: {letter}**",
    "<think>At first sight it is A. No, it cannot be.</think>\nAnswer: {letter}",
    "The correct option is ({letter}) {text}.\n\nAnswer: {letter}",
    "\\boxed{{{letter}}}",
)


def item(
    draw: random.Random,
    name: str,
    question: str,
    options: tuple[str, ...],
    key: int,
    chosen: int,
    labels: str = LETTERS,
    **changed: Any,
) -> Item:
    """Return a question with the answer `chosen`, which the program read correctly."""
    answer = draw.choice(WAYS).format(letter=labels[chosen], text=options[chosen])
    prompt = prompt_of(question, options, labels=labels)
    return Item(name, question, options, key, answer, chosen, float(chosen == key), prompt, **changed)


# Writers


def write_harness(log: Log, folder: Path) -> Path:
    path = folder / "org__model"
    path.mkdir(parents=True)
    lines = [
        {
            "doc_id": at.id,
            "doc": {"question": at.question, "choices": list(at.options), "answer": at.key},
            "target": log.key(at),
            "arguments": {"gen_args_0": {"arg_0": at.prompt, "arg_1": {"until": []}}},
            "resps": [[at.said]],
            "filtered_resps": [log.label(at) or "[invalid]"],
            "filter": "get_response",
            "metrics": ["exact_match"],
            "exact_match": at.score,
        }
        for at in log.items
    ]
    date = "2026-11-02T10-00-00.000000"
    _lines(path / f"samples_{log.task}_{date}.jsonl", lines)
    results = {
        "results": {log.task: {"exact_match,get_response": log.accuracy}},
        "config": {"limit": log.limit},
        "model_name": log.model,
    }
    (path / f"results_{date}.json").write_text(json.dumps(results))
    return path


def write_inspect(log: Log, folder: Path) -> Path:
    path = folder / f"{log.task}.eval"
    samples = [
        {
            "id": at.id,
            "epoch": at.epoch,
            "input": at.question,
            "choices": list(at.options),
            "target": log.key(at),
            "messages": [{"role": "user", "content": at.prompt}, {"role": "assistant", "content": at.said}],
            "output": {
                "completion": at.said,
                "choices": [{"stop_reason": {"length": "max_tokens"}.get(at.finish, at.finish)}],
            },
            "scores": {"choice": {"value": "C" if at.score else "I", "answer": log.label(at)}},
        }
        for at in log.items
    ]
    header = {
        "version": 2,
        "status": "success",
        "eval": {"task": log.task, "model": log.model, "config": {"limit": log.limit}},
        "results": {"scores": [{"scorer": "choice", "metrics": {"accuracy": {"value": log.accuracy}}}]},
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for number, sample in enumerate(samples):
            archive.writestr(f"samples/{number}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return path


def write_helm(log: Log, folder: Path) -> Path:
    path = folder / "runs" / "v1" / f"{log.task}:model=org_model"
    path.mkdir(parents=True)
    states, stats = [], []
    for at in log.items:
        states.append(
            {
                "instance": {
                    "id": at.id,
                    "input": {"text": at.question},
                    "split": "test",
                    "references": [
                        {"output": {"text": text}, "tags": ["correct"] if place == at.key else []}
                        for place, text in enumerate(at.options)
                    ],
                },
                "train_trial_index": at.epoch - 1,
                "output_mapping": {_helm_label(log, at, place): text for place, text in enumerate(at.options)},
                "request": {"prompt": at.prompt},
                "result": {
                    "completions": [
                        {
                            "text": _as_read(log, at),
                            "logprob": 0.0,
                            "tokens": [],
                            "finish_reason": {"reason": at.finish},
                        }
                    ]
                },
            }
        )
        stats.append(
            {
                "instance_id": at.id,
                "train_trial_index": at.epoch - 1,
                "stats": [{"name": {"name": "exact_match"}, "count": 1, "mean": at.score}],
            }
        )
    specification = {
        "method": "multiple_choice_joint",
        "model": log.model,
        "max_tokens": 1000,
        "max_eval_instances": log.limit,
        "output_mapping_pattern": HELM_PATTERN if log.form == "letters" else None,
    }
    (path / "scenario_state.json").write_text(json.dumps({"adapter_spec": specification, "request_states": states}))
    (path / "per_instance_stats.json").write_text(json.dumps(stats))
    overall = [{"name": {"name": "exact_match", "split": "test"}, "mean": log.accuracy}]
    (path / "stats.json").write_text(json.dumps(overall))
    return path


HELM_PATTERN = r"(?:^|is )([A-H])\b"
"""HELM's pattern for an answer: a label that begins the text, or that immediately follows "is"."""


def _helm_label(log: Log, at: Item, place: int) -> str:
    """Return the label in HELM's log.

    If the answer is an option's text, HELM compares it with the right option's text.
    """
    return str(FORMS["letters" if log.form.startswith("text") else log.form](place, at.options))


def _as_read(log: Log, at: Item) -> str:
    """Return the answer's text, or only the label if HELM's pattern would read another answer in the text."""
    match = re.search(HELM_PATTERN, at.said.strip()) if log.form == "letters" else None
    reads_the_answer = match is not None and match[1] == (None if at.recorded is None else LETTERS[at.recorded])
    return at.said if reads_the_answer or at.recorded is None else str(log.label(at))


def write_lighteval(log: Log, folder: Path) -> Path:
    date = "2026-11-02T10-00-00.000000"
    path = folder / "out" / "details" / "org" / "model" / date
    path.mkdir(parents=True)
    rows = [
        {
            "doc": {
                "query": at.prompt,
                "choices": list(LETTERS[: len(at.options)]),
                "gold_index": at.key,
                "instruction": "",
                "id": at.id,
                "task_name": f"{log.task}|0",
                "fewshot_samples": [],
            },
            "metric": {"em": at.score},
            "model_response": {
                "input": at.prompt,
                "text": [at.said],
                "text_post_processed": [str(log.label(at))],
                "logprobs": [],
                "input_tokens": [1, 5, 9],
            },
        }
        for at in log.items
    ]
    pq.write_table(pa.Table.from_pylist(rows), path / f"details_{log.task}|0_{date}.parquet")
    results = folder / "out" / "results" / "org" / "model"
    results.mkdir(parents=True)
    document = {
        "results": {f"{log.task}|0": {"em": log.accuracy}},
        "config_general": {"model_name": log.model, "max_samples": log.limit},
    }
    (results / f"results_{date}.json").write_text(json.dumps(document))
    return folder / "out" / "details"


def write_opencompass(log: Log, folder: Path) -> Path:
    run = folder / "20261102"
    for name in ("predictions", "results"):
        (run / name / "model").mkdir(parents=True)
    predictions = {
        str(number): {"origin_prompt": at.prompt, "prediction": at.said, "gold": log.key(at)}
        for number, at in enumerate(log.items)
    }
    details = {
        str(number): {"pred": [log.label(at)], "is_correct": [bool(at.score)]} for number, at in enumerate(log.items)
    }
    (run / "predictions" / "model" / f"{log.task}.json").write_text(json.dumps(predictions))
    results = {"accuracy": 100 * log.accuracy, "details": details}
    (run / "results" / "model" / f"{log.task}.json").write_text(json.dumps(results))
    return run


def write_every_eval_ever(log: Log, folder: Path) -> Path:
    lines = [
        {
            "schema_version": "0.3.0",
            "evaluation_id": "run",
            "model_id": log.model,
            "evaluation_name": log.task,
            "evaluation_result_id": "accuracy",
            "sample_id": at.id,
            "interaction_type": "single_turn",
            "input": {
                "raw": at.question,
                "formatted": at.prompt,
                "reference": [str(log.key(at))],
                "choices": list(at.options),
            },
            "output": {"raw": [at.said]},
            "answer_attribution": [{"extracted_value": str(log.label(at)), "is_terminal": True}],
            "evaluation": {"score": at.score, "is_correct": bool(at.score)},
            "metadata": {"stop_reason": at.finish, "epoch": str(at.epoch)},
        }
        for at in log.items
    ]
    path = folder / "run_samples.jsonl"
    _lines(path, lines)
    result = {"evaluation_results": [{"evaluation_result_id": "accuracy", "score_details": {"score": log.accuracy}}]}
    (folder / "run.json").write_text(json.dumps(result))
    return path


def write_table(log: Log, folder: Path) -> Path:
    """Write a table of one model, without texts, prompts or scores; return its path."""
    path = folder / f"{log.task}.csv"
    rows = [["question_id", "n_options", "correct", log.model.replace("/", "_")]]
    rows += [[at.id, str(len(at.options)), str(log.key(at)), str(log.label(at))] for at in log.items]
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    return path


def _lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


WRITERS: dict[str, Callable[[Log, Path], Path]] = {
    "lm-evaluation-harness": write_harness,
    "inspect": write_inspect,
    "helm": write_helm,
    "lighteval": write_lighteval,
    "opencompass": write_opencompass,
    "every-eval-ever": write_every_eval_ever,
}
EVERY_WRITER = WRITERS | {"table": write_table}


# Faults


Fault = Callable[[Log, random.Random], Log]


def changed(log: Log, draw: random.Random, share: float, change: Callable[[Item], Item]) -> Log:
    """Return the log with some of its items changed."""
    chosen = set(draw.sample(range(len(log.items)), max(1, round(share * len(log.items)))))
    return replace(log, items=[change(at) if n in chosen else at for n, at in enumerate(log.items)])


def lost(at: Item) -> Item:
    answer = f"The answer is ({LETTERS[at.key]})."
    return replace(at, said=answer, recorded=None, score=0.0)


def misread(at: Item) -> Item:
    wrong_place = (at.key + 1) % len(at.options)
    answer = f"{LETTERS[wrong_place]} looks right, but it is not.\n\nAnswer: {LETTERS[at.key]}"
    return replace(at, said=answer, recorded=wrong_place, score=0.0)


def thought(at: Item) -> Item:
    wrong_place = (at.key + 1) % len(at.options)
    answer = f"<think>At first sight the answer is {LETTERS[wrong_place]}.</think>\nAnswer: {LETTERS[at.key]}"
    return replace(at, said=answer, recorded=wrong_place, score=0.0)


def unfinished(at: Item) -> Item:
    return replace(at, said="<think>Let me see. The first one", recorded=None, score=0.0, finish="length")


def with_prompt(change: Callable[[Item], str]) -> Callable[[Item], Item]:
    return lambda at: replace(at, prompt=change(at))


def rekeyed(at: Item) -> Item:
    key = (at.key + 1) % len(at.options)
    return replace(at, key=key, score=float(at.recorded == key))


def first_at(position: int) -> Callable[[Item], Item]:
    """Return a function that moves the right option to a position, in the prompt and in the answer."""

    def change(at: Item) -> Item:
        options = list(at.options)
        options[position], options[at.key] = options[at.key], options[position]
        moved = tuple(options)
        wrong = (position + 1) % len(moved)
        chosen = position if at.score else wrong
        return replace(
            at,
            options=moved,
            key=position,
            recorded=chosen,
            said=f"Answer: {LETTERS[chosen]}",
            prompt=prompt_of(at.question, moved),
        )

    return change


def answering(position: int) -> Callable[[Item], Item]:
    return lambda at: replace(
        at, recorded=position, said=f"Answer: {LETTERS[position]}", score=float(at.key == position)
    )


def at_chance(log: Log, draw: random.Random) -> Log:
    """Return the log with as many right answers as guessing gives on average, at random questions."""
    right = set(draw.sample(range(len(log.items)), round(sum(1 / len(at.options) for at in log.items))))
    items = []
    for number, at in enumerate(log.items):
        wrong = (at.key + draw.randrange(1, len(at.options))) % len(at.options)
        items.append(answering(at.key if number in right else wrong)(at))
    return replace(log, items=items)


def copies(name: str, change: Callable[[Item], Item]) -> Fault:
    """Return a fault that repeats five items, under new ids if the name is "new", otherwise under their own ids."""

    def plant(log: Log, draw: random.Random) -> Log:
        again = [change(at) for at in draw.sample(log.items, 5)]
        if name == "new":
            again = [replace(at, id=f"{at.id}-again") for at in again]
        return replace(log, items=[*log.items, *again])

    return plant


def _same(at: Item) -> Item:
    return at


def otherwise(at: Item) -> Item:
    chosen = ((at.recorded or 0) + 1) % len(at.options)
    return replace(at, recorded=chosen, said=f"Answer: {LETTERS[chosen]}", score=float(chosen == at.key))


def emptied(at: Item) -> Item:
    options = list(at.options)
    options[(at.key + 1) % len(options)] = " "
    return replace(at, options=tuple(options), prompt=prompt_of(at.question, tuple(options)))


def several_orders(log: Log, draw: random.Random) -> Log:
    """Return every question in its original and reversed order; the model keeps its letter in a third of them."""
    again = []
    for at in log.items:
        options = at.options[::-1]
        key, same = len(options) - 1 - at.key, len(options) - 1 - (at.recorded or 0)
        chosen = (at.recorded or 0) if draw.random() < 0.3 else same
        again.append(item(draw, at.id, at.question, options, key, chosen, epoch=2))
    return replace(log, items=[*log.items, *again])


def repeats(log: Log, draw: random.Random) -> Log:
    again = [replace(otherwise(at) if draw.random() < 0.2 else at, epoch=2) for at in log.items]
    return replace(log, items=[*log.items, *again])


def repeated_option(at: Item) -> Item:
    wrong_place = (at.key + 1) % len(at.options)
    options = list(at.options)
    options[wrong_place] = options[at.key]
    return replace(at, options=tuple(options), prompt=prompt_of(at.question, tuple(options)))


def few(share: float, change: Callable[[Item], Item]) -> Fault:
    return lambda log, draw: changed(log, draw, share, change)


def near(at: Item) -> Item:
    question = at.question.rstrip("?. ") + " exactly"
    return replace(at, question=question, prompt=prompt_of(question, at.options))


def example_of(at: Item) -> str:
    return prompt_of(at.question, at.options, examples=f"{shown(at.question, at.options)} {LETTERS[at.key]}\n\n")


FAULTS: dict[str, Fault] = {
    "stated-accuracy-differs": lambda log, _: replace(log, stated=log.accuracy - 0.1),
    "score-contradicts-answer": few(0.05, lambda at: replace(at, score=1 - at.score)),
    "answers-lost": few(0.05, lost),
    "answers-misread": few(0.06, misread),
    "thought-read": few(0.03, thought),
    "unfinished-answers": few(0.05, unfinished),
    "empty-answers": few(0.05, lambda at: replace(at, said="", recorded=None, score=0.0)),
    "unread-answers": few(0.1, lambda at: replace(at, said="I cannot say.", recorded=None, score=0.0)),
    "keys-at-one-position": few(1.0, first_at(0)),
    "keys-uneven": few(0.5, first_at(1)),
    "answers-uneven": few(0.7, answering(2)),
    "no-better-than-guessing": at_chance,
    "duplicate-questions": copies("new", _same),
    "contradictory-keys": copies("new", rekeyed),
    "answered-twice": copies("own", _same),
    "answered-twice-differently": copies("own", otherwise),
    "id-used-twice": few(0.03, lambda at: replace(at, id="1")),
    "empty-question-or-option": few(0.02, emptied),
    "key-differs-from-benchmark": few(0.05, rekeyed),
    "order-changes-answers": several_orders,
    "repeats-differ": repeats,
    "near-duplicate-questions": copies("new", near),
    "repeated-options": few(0.02, repeated_option),
    "labels-missing-in-instruction": few(1.0, with_prompt(lambda at: prompt_of(at.question, at.options, named="ABC"))),
    "labels-beyond-options": few(1.0, with_prompt(lambda at: prompt_of(at.question, at.options, named="A to J"))),
    "question-among-examples": few(0.03, with_prompt(example_of)),
    "doubled-begin-token": few(1.0, with_prompt(lambda at: f"<s><s>[INST] {at.prompt}")),
    "unfilled-template": few(1.0, with_prompt(lambda at: "Subject: {{subject}}\n" + at.prompt)),
    "answer-in-prompt": few(0.1, with_prompt(lambda at: f"{at.prompt} {LETTERS[at.key]}")),
    "truncated-prompt": few(0.03, with_prompt(lambda at: at.prompt[: -len(at.options[-1]) // 2 - 9])),
    "undeclared-subset": lambda log, _: replace(log, limit=None, task="mmlu"),
}


FAULTS |= {
    "labels-with-a-gap": few(1.0, with_prompt(lambda at: prompt_of(at.question, at.options, named="A, B, C or E"))),
    "all-scores-right": lambda log, _: replace(log, items=[replace(at, score=1.0) for at in log.items]),
    "all-scores-wrong": lambda log, _: replace(log, items=[replace(at, score=0.0) for at in log.items]),
    "keys-shifted": few(0.3, lambda at: replace(at, key=(at.key + 1) % len(at.options))),
    "stated-too-high": lambda log, _: replace(log, stated=log.accuracy + 0.02),
    "refused-answers": few(0.04, lambda at: replace(at, said="", recorded=None, score=0.0, finish="content_filter")),
}
NAMED_AS = {
    "labels-with-a-gap": "labels-missing-in-instruction",
    "all-scores-right": "score-contradicts-answer",
    "all-scores-wrong": "score-contradicts-answer",
    "keys-shifted": "score-contradicts-answer",
    "stated-too-high": "stated-accuracy-differs",
}
"""Names of findings that differ from the names of their faults."""
