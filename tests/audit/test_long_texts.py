"""A megabyte of any text in any field of a log takes less than a second of CPU, in an audit and in an import.

A limit of two seconds leaves room for a slow machine; with the square of the length, each would take minutes.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from typing import Any

import pytest

from registry.errors import ShuffleboardError
from registry.logs.audit.checks import check
from registry.logs.audit.gathered import Gathered, Questions
from registry.logs.audit.readers import sources_of
from registry.predictions.texts import build_imported_text
from tests.audit.both import list_known, log_in, run_import
from tests.audit.logs import EVERY_WRITER, Item, Log, clean, prompt_of

LENGTH = 1_000_000
LIMIT = 2.0

REPEATED = (
    *(
        "Answer: ",
        "the answer is ",
        "A",
        "A, B, ",
        "(A)",
        "A. x\n",
        "B. y\nC. z\n",
        "(A) x (B) y ",
        "Rome\n",
        "question ",
    ),
    *(
        "\\boxed{",
        '{"answer": "',
        '{"a": [',
        "\\",
        '"',
        "\\u0041",
        "$x^2$ ",
        "<answer>",
        "<think>",
        "`</think>`",
        "<|x|>",
    ),
    *("<b ", "{{a", "[", "]", "(", "*", "#", "- ", "=", "1", "12 ", "9.", " ", "\t", "\n", "\n \n", "\r\n", "\u00a0"),
    *("a", "I think it is ", "中", "选", "したがって", "가", "ﷺ", "ﬃ", "\u0301", "ا", "é", "😀", "\u200b", "\u2028"),
)


def write_prompt(item: Item, text: str) -> Item:
    return replace(item, prompt=f"{text}\n\n{item.prompt}")


def write_question(item: Item, text: str) -> Item:
    return replace(item, question=text, prompt=prompt_of(text, item.options))


def write_option(item: Item, text: str) -> Item:
    options = (item.options[0], text, *item.options[2:])
    return replace(item, options=options, prompt=prompt_of(item.question, options))


def write_response(item: Item, text: str) -> Item:
    return replace(item, said=text)


FIELDS: dict[str, Callable[[Item, str], Item]] = {
    "prompt": write_prompt,
    "question": write_question,
    "option": write_option,
    "response": write_response,
    "label": write_response,
}


def label_of(log: Log, at: Item, *, said: Item, otherwise: Callable[[Log, Item], Any]) -> Any:
    return said.said if at is said else otherwise(log, at)


def read_by_audit(path: Path, _format: str, _log: Log) -> None:
    check(Gathered(sources_of(path, {})[0], Questions()).read())


def read_by_import(path: Path, format_: str, log: Log) -> None:
    for recorded in run_import(path, format_, list_known(log)):
        if recorded.text is not None:
            build_imported_text(recorded.text, recorded.reasoning, opened=False)


@pytest.mark.long
@pytest.mark.parametrize("format_", EVERY_WRITER)
@pytest.mark.parametrize("field", FIELDS)
def test_a_megabyte_in_any_field_is_read_in_seconds(
    field: str, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = {}
    for number, repeated in enumerate(REPEATED):
        log = clean(3, "mmlu", count=2)
        item = log.items[0] = FIELDS[field](log.items[0], repeated * (LENGTH // len(repeated)))
        folder = tmp_path / str(number)
        folder.mkdir()
        with monkeypatch.context() as patch:
            if field == "label":
                patch.setattr(Log, "label", partialmethod(label_of, said=item, otherwise=Log.label))
            try:
                EVERY_WRITER[format_](log, folder)
                path = log_in(folder)
            except (ShuffleboardError, ValueError):  # a table without this field, or refused at once
                continue
        for read in (read_by_audit, read_by_import):
            began = time.process_time()
            with suppress(ShuffleboardError):
                read(path, format_, log)
            took = time.process_time() - began
            if took > LIMIT:
                slow[repeated, read.__name__] = took
    assert slow == {}
