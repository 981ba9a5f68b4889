"""Clean logs of seven formats with labels in many forms, and planted faults, as audits and imports read them."""

import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from registry.errors import IngestError
from registry.logs.audit.gathered import Gathered, Questions
from registry.logs.audit.prompts import problems
from registry.logs.audit.readers import sources_of
from registry.logs.audit.report import Report, audit
from registry.logs.formats import FORMATS
from registry.logs.formats.harness import read_harness, texts_written
from registry.logs.listing import listing
from registry.logs.recognition import form_of_document, form_of_line
from registry.logs.record import KnownQuestion, Seen
from registry.prompting.labels import LETTERS
from tests.audit.both import both, list_known, log_in, run_import
from tests.audit.logs import EVERY_WRITER, FAULTS, FORMS, NAMED_AS, SHOWN, WRITERS, Log, clean, item, prompt_of
from tests.support.marks import long_but


def errors(report: Report) -> list[str]:
    return [f"{finding.kind.name}: {finding.detail}" for finding in report.findings if finding.severity == "error"]


CLEAN = [
    (format_, form, keyed)
    for format_ in EVERY_WRITER
    for form in FORMS
    for keyed in ("letters", form)
    # A table has no texts to compare with, and no scores that reveal the first digit.
    if format_ != "table" or not (form.startswith("text") or (form.startswith("digits") and keyed == "letters"))
]


@pytest.mark.parametrize("seed", long_but(range(0, len(CLEAN), 7), range(len(CLEAN))))
def test_a_clean_log_is_read_alike_and_not_accused(tmp_path: Path, seed: int) -> None:
    format_, form, keyed = CLEAN[seed]
    # Options of mathematics are letters and digits themselves, which HELM takes for labels.
    benchmark = "csqa" if form == "text in capitals" else ("mmlu", "csqa")[seed % 2]
    log = clean(seed, benchmark, 60, form, keyed)
    folder = EVERY_WRITER[format_](log, tmp_path)
    report = audit([folder])
    assert errors(report) == [], report.text()
    read = both(folder, format_, log)
    recorded = [item.recorded for item in log.items]
    assert (read.audited, read.imported) == (recorded, recorded)
    assert (read.audited_keys, read.imported_keys) == ([item.key for item in log.items],) * 2


@pytest.mark.parametrize("format_", ["inspect", "lm-evaluation-harness", "opencompass", "every-eval-ever"])
def test_a_number_is_the_option_it_names_among_answers_that_are_options(tmp_path: Path, format_: str) -> None:
    log = clean(7, "csqa", 30, "text", "text")
    options = ("2", "4", "6", "8", "12")
    log.items[0] = item(random.Random(1), "even", "How many wheels does a bicycle have?", options, 0, 0)
    read = both(WRITERS[format_](log, tmp_path), format_, log)
    recorded = [at.recorded for at in log.items]
    assert (read.audited, read.imported) == (recorded, recorded)
    assert read.audited_keys == read.imported_keys


@pytest.mark.parametrize("format_", ["inspect", "lighteval", "helm"])
def test_options_that_are_letters_are_read_in_the_order_shown(tmp_path: Path, format_: str) -> None:
    draw, options = random.Random(1), ("B", "A", "D", "C")
    items = [item(draw, f"q{n}", f"Which grade did pupil {n} get?", options, n % 4, n % 3) for n in range(24)]
    read = both(WRITERS[format_](Log(items), tmp_path), format_, Log(items))
    assert read.audited == read.imported == [n % 3 for n in range(24)]
    assert read.audited_keys == read.imported_keys == [n % 4 for n in range(24)]


@pytest.mark.parametrize("form", ["text", "text in capitals"])
@pytest.mark.parametrize("format_", ["inspect", "opencompass", "every-eval-ever", "lm-evaluation-harness"])
def test_letters_that_are_options_and_labels_are_told_apart_by_texts(tmp_path: Path, format_: str, form: str) -> None:
    draw, options = random.Random(1), ("B", "A", "D", "C")
    items = [item(draw, f"q{n}", f"Which grade did pupil {n} get?", options, n % 4, n % 3) for n in range(24)]
    log = Log(items, form=form, keyed=form)
    read = both(WRITERS[format_](log, tmp_path), format_, log)
    assert read.audited == read.imported == [n % 3 for n in range(24)]
    assert read.audited_keys == read.imported_keys == [n % 4 for n in range(24)]


@pytest.mark.parametrize("format_", ["inspect", "opencompass", "every-eval-ever"])
def test_digits_that_are_options_and_labels_are_told_apart_by_texts(tmp_path: Path, format_: str) -> None:
    draw, options, form = random.Random(1), ("2", "1", "4", "3"), "digits from 1"
    questions = [f"How many pupils came on day {n}?" for n in range(24)]
    items = [item(draw, f"q{n}", text, options, n % 4, n % 3, SHOWN[form]) for n, text in enumerate(questions)]
    log = Log(items, form=form, keyed=form)
    read = both(WRITERS[format_](log, tmp_path), format_, log)
    assert read.audited == read.imported == [n % 3 for n in range(24)]
    assert read.audited_keys == read.imported_keys == [n % 4 for n in range(24)]


FORMS_OF_FAULTS = [form for form in FORMS if form not in SHOWN]
"""Forms whose prompts have letters, as the prompts of faults have."""
IN_TABLES = (
    *("keys-at-one-position", "keys-uneven", "answers-uneven", "no-better-than-guessing"),
    *("answered-twice", "answered-twice-differently", "unread-answers"),
)
"""Faults that a table can have."""
INSTEAD = {
    # Predictions of OpenCompass are numbered, and have no ids.
    ("opencompass", "answered-twice"): "duplicate-questions",
    ("opencompass", "answered-twice-differently"): "duplicate-questions",
    # The harness does not record why a text ended.
    ("lm-evaluation-harness", "refused-answers"): "empty-answers",
    ("lighteval", "refused-answers"): "empty-answers",
    ("opencompass", "refused-answers"): "empty-answers",
    ("helm", "refused-answers"): "empty-answers",
}
NOT_PLANTED = {("opencompass", "id-used-twice")}


def plant() -> list[tuple[str, str, str, int]]:
    """Return every fault in every format that can have it, three times: (format, fault, form of labels, seed)."""
    planted = []
    for format_ in EVERY_WRITER:
        for fault in FAULTS if format_ != "table" else IN_TABLES:
            for turn in range(3):
                seed = len(planted)
                form = "letters" if format_ == "helm" else FORMS_OF_FAULTS[(seed + turn) % len(FORMS_OF_FAULTS)]
                if format_ == "table" and form.startswith("text"):
                    form = "letters"
                if (format_, fault) not in NOT_PLANTED:
                    planted.append((format_, fault, form, seed))
    return planted


def with_fault(format_: str, fault: str, form: str, seed: int) -> Log:
    return FAULTS[fault](clean(seed, ("mmlu", "csqa")[seed % 2], 100, form), random.Random(seed))


def find_missed(folder: Path, format_: str, fault: str, form: str, seed: int) -> str:
    """Read a log that has a fault and return an error in the result; empty if there is none."""
    log = with_fault(format_, fault, form, seed)
    path = EVERY_WRITER[format_](log, folder)
    kinds = {finding.kind.name for finding in audit([path]).findings}
    wanted = INSTEAD.get((format_, fault), NAMED_AS.get(fault, fault))
    # If all scores are 0, the program may have read no label in this form.
    lost = fault == "all-scores-wrong" and "answers-lost" in kinds
    message = "" if wanted in kinds or lost else f"{wanted} is not among {sorted(kinds)}"
    with suppress(IngestError):
        read = both(path, format_, log)
        if (read.audited, read.audited_keys) != (read.imported, read.imported_keys):
            message += f"; audit and import differ: {read}"
        if format_ != "table" and abs(read.accuracy - log.accuracy) > 1e-9:
            message += f"; {read.accuracy} would be sealed, and the log says {log.accuracy}"
    return message


SHARES = 12


@pytest.mark.parametrize(
    ("share", "shares"), [(0, 4 * SHARES), *(pytest.param(n, SHARES, marks=pytest.mark.long) for n in range(SHARES))]
)
def test_planted_faults_are_named_and_never_sealed(tmp_path: Path, share: int, shares: int) -> None:
    cases = plant()
    assert len(cases) >= 500
    wrong = []
    for number, case in enumerate(cases[share::shares]):
        (folder := tmp_path / str(number)).mkdir()
        if message := find_missed(folder, *case):
            wrong.append(f"{case}: {message}")
    assert wrong == []


Lines = list[dict[str, Any]]


def _change(lines: Lines, **changed: Callable[[dict[str, Any]], Any]) -> Lines:
    return [line | {name: change(line) for name, change in changed.items()} for line in lines]


def score(lines: Lines, *, continuation: Callable[[str, int], str] = lambda text, _: f" {text}", low: Any) -> Lines:
    """Return the samples of a task that scores the options, in which the chosen option is the most likely."""
    samples = []
    for line in lines:
        options, chosen = line["doc"]["choices"], LETTERS.index(line["filtered_resps"][0])
        values = [
            [-1.0 if at == chosen else low if at == (chosen + 1) % len(options) else -2.5, False]
            for at in range(len(options))
        ]
        prompt = line["arguments"]["gen_args_0"]["arg_0"]
        calls = {
            f"gen_args_{at}": {"arg_0": prompt, "arg_1": continuation(text, at)} for at, text in enumerate(options)
        }
        more = {"resps": [[[str(value), str(greedy)]] for value, greedy in values], "arguments": calls}
        samples.append(
            {key: value for key, value in line.items() if key not in ("exact_match", "filter")}
            | more
            | {"filtered_resps": [[str(value), str(greedy)] for value, greedy in values], "filter": "none"}
            | {"acc": line["exact_match"], "target": line["doc"]["answer"]}
        )
    return samples


def _move(lines: Lines, texts: Sequence[str]) -> Lines:
    """Return the options with other texts, which are labels or digits themselves; the answer is an option's text."""
    moved = []
    for line in lines:
        chosen, old = LETTERS.index(line["filtered_resps"][0]), line["doc"]["choices"]
        prompt = line["arguments"]["gen_args_0"]["arg_0"]
        for at, text in enumerate(old):
            prompt = prompt.replace(f"{LETTERS[at]}. {text}", f"{LETTERS[at]}. {texts[at]}")
        moved.append(
            line
            | {"doc": line["doc"] | {"choices": list(texts[: len(old)])}, "filtered_resps": [texts[chosen]]}
            | {"target": texts[line["doc"]["answer"]], "arguments": {"gen_args_0": {"arg_0": prompt, "arg_1": {}}}}
            | {"resps": [[f"It is {texts[chosen]}"]]}
        )
    return moved


SPECIAL: dict[str, Callable[[Lines], Lines]] = {
    "a list of one index": lambda lines: _change(lines, target=lambda line: f"[{line['doc']['answer']}]"),
    "an index": lambda lines: _change(lines, target=lambda line: line["doc"]["answer"]),
    "an index as text": lambda lines: _change(lines, target=lambda line: str(line["doc"]["answer"])),
    "minus infinity": lambda lines: score(lines, low="-inf"),
    "a continuation as target": lambda lines: _change(
        score(lines, low=-9.0, continuation=lambda _, at: f" go{'abcde'[at]}"),
        target=lambda line: f" go{'abcde'[line['doc']['answer']]}",
    ),
    "several texts and one answer": lambda lines: _change(
        lines, resps=lambda line: [[line["resps"][0][0], "I cannot say.", "It depends."]]
    ),
    "digits as options": lambda lines: _move(lines, ("2", "0", "4", "1", "3")),
    "letters as options": lambda lines: _move(lines, ("B", "A", "D", "C", "E")),
    "two filters": lambda lines: [
        *lines,
        *_change(lines, filter=lambda _: "strict", filtered_resps=lambda line: [line["filtered_resps"][0].lower()]),
    ],
}


@pytest.mark.parametrize("special", SPECIAL)
def test_special_samples_are_read_alike_and_not_accused(tmp_path: Path, special: str) -> None:
    log = clean(list(SPECIAL).index(special), "csqa", 60)
    folder = EVERY_WRITER["lm-evaluation-harness"](log, tmp_path)
    path = log_in(folder)
    lines = SPECIAL[special]([json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for results in folder.glob("results_*.json"):
        results.unlink()
    report = audit([path])
    assert errors(report) == [], report.text()
    questions = {
        line["doc_id"]: KnownQuestion(n, line["doc_id"], n, line["doc"]["question"], tuple(line["doc"]["choices"]), key)
        for n, line in enumerate(lines[: len(log.items)])
        for key in [line["doc"]["answer"]]
    }
    recorded = [item.recorded for item in log.items]
    assert [item.shown_position for item in run_import(path, "lm-evaluation-harness", questions)] == recorded
    seen = Gathered(sources_of(path, {})[0], Questions()).read()
    assert seen.column("position").tolist() == recorded


def test_several_answers_to_one_prompt_are_its_repeats(tmp_path: Path) -> None:
    log = clean(3, "csqa", 60)
    path = log_in(EVERY_WRITER["lm-evaluation-harness"](log, tmp_path))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        line |= {"resps": [["A", "B"]], "filtered_resps": [["A", "B"]], "exact_match": 0.0}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    taken = list(read_harness(path, list_known(log)))
    assert [item.variant for item in taken[:4]] == [0, 1, 0, 1]
    seen = Gathered(sources_of(path, {})[0], Questions()).read()
    assert (seen.column("position")[:4].tolist(), seen.column("variant")[:4].tolist()) == ([0, 1, 0, 1], [0, 1, 0, 1])


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_of_a_format_is_recognised_as_that_format(name: str) -> None:
    format_ = FORMATS[name]
    assert format_.sample.keys() >= format_.keys
    if format_.layout == "lines":
        assert form_of_line(format_.sample) == name
    elif format_.layout == "document":
        assert form_of_document(format_.sample) == name


HOSTILE = (
    " ",
    "\t",
    "\n",
    "- ",
    "A.\n",
    "A or ",
    "<",
    "[",
    "(",
    "**",
    "\\boxed{",
    "answer ",
    "options:",
    "1",
    "é",
    "_",
)


@pytest.mark.parametrize("repeated", long_but([" ", "A.\n"], HOSTILE))
def test_a_record_of_repeated_characters_is_read_in_linear_time(tmp_path: Path, repeated: str) -> None:
    # With quadratic time, a record would take more than a minute.
    text = repeated * (200_000 // len(repeated))
    prompt = f"a{text}b\nWhich town?\nA. Rome\nB. Paris\nAnswer:{text};"
    log = clean(1, "csqa", 1)
    log.items[0] = replace(log.items[0], prompt=prompt, said=text, question=f"a{text}b")
    for format_, write in WRITERS.items():
        (folder := tmp_path / format_).mkdir()
        path = write(log, folder)
        began = time.process_time()
        audit([path])
        assert time.process_time() - began < 5, format_


@pytest.mark.parametrize("before", [f"Q{' ' * 200_000}x\n\n", "A) x\nB) y\n" * 20_000])
def test_the_options_after_a_long_text_are_found_at_once(before: str) -> None:
    began = time.process_time()
    listed = listing(f"{before}Which town?\nA. Rome\nB. Paris\n")
    assert listed is not None
    assert listed.options == ("Rome", "Paris")
    assert time.process_time() - began < 3


def test_a_long_option_is_found_in_its_prompt_at_once() -> None:
    # As a pattern, it took two seconds and more to compile.
    options = ("Rome", "<b " * 333_000)
    seen = Seen("line 1", "q1", "Which town?", options, 0, 0, prompt=prompt_of("Which town?", options))
    began = time.process_time()
    assert list(problems(seen)) == []
    assert time.process_time() - began < 1


def test_pairs_that_are_written_as_texts_are_likelihoods() -> None:
    assert texts_written({"resps": ["(-1.2, False)", "(-0.3, True)"]}) == []
    assert texts_written({"resps": [[["-1.2", "False"]], [["-0.3", "True"]]]}) == []
    assert texts_written({"resps": [["A", "B"]]}) == ["A", "B"]
    assert texts_written({"resps": ["A"]}) == texts_written({"resps": "A"}) == ["A"]
