"""Benchmark files: reading, storage and refusals.

For users' view of refusals, see tests/integration/test_bad_input.py.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from registry.benchmarks.contract import read_benchmark
from registry.errors import IngestError
from registry.names import check_name, split_reference
from tests.support.population import MMLU, question, write_lines


def write(folder: Path, *lines: dict[str, Any] | str, name: str = "bench.jsonl") -> Path:
    path = folder / name
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_bytes("\n".join(texts).encode())
    return path


def test_a_question_is_read_as_it_stands(tmp_path: Path) -> None:
    path = write(tmp_path, question(0, options=3, answer=2, context="A passage.", source="book", tags=["a", 1.5]))
    (record,) = read_benchmark(path).questions
    assert (record.external_id, record.subject, record.context) == ("q0", "physics", "A passage.")
    assert (record.text, record.answer) == ("Which is number 0?", 2)
    assert record.options == ("option 0.0", "option 0.1", "option 0.2")
    assert record.extra == {"source": "book", "tags": ["a", 1.5]}


@pytest.mark.parametrize(
    ("changes", "field", "expected"),
    [
        pytest.param({"passage": "p"}, "context", "p", id="passage is another name for context"),
        pytest.param({"subject": None}, "subject", None, id="no subject"),
        pytest.param({"subject": ""}, "subject", None, id="an empty subject is none"),
        pytest.param({"context": None}, "context", None, id="a context of null is none"),
        pytest.param({"options": {"A": "x", "B": "y"}, "answer": "B"}, "answer", 1, id="options under letters"),
        pytest.param({"options": {"A": "x", "B": "y"}, "answer": 1}, "options", ("x", "y"), id="letters and an index"),
        pytest.param({"id": 17}, "external_id", "17", id="a number as id"),
        pytest.param({"question": "a\u2028b\u0085c"}, "text", "a\u2028b\u0085c", id="other line breaks stay"),
        pytest.param({"question": ""}, "text", "", id="an empty question, where the context says all"),
        pytest.param({"options": ["A", "A"], "answer": 1}, "answer", 1, id="equal options"),
        pytest.param(
            {"options": ["None", "NA", "null", "=1+1", "nan"], "answer": 0},
            "options",
            ("None", "NA", "null", "=1+1", "nan"),
            id="options that tables take for something else",
        ),
        pytest.param({"options": [" a ", "b\n"], "answer": 0}, "options", (" a ", "b\n"), id="blanks round an option"),
        pytest.param({"cluster": "p1"}, "extra", {"cluster": "p1"}, id="a cluster"),
        pytest.param({"cluster": 7}, "extra", {"cluster": "7"}, id="a number as cluster"),
        pytest.param({"cluster": ""}, "extra", {"cluster": None}, id="an empty cluster is none"),
        pytest.param({"note": "\\u0000"}, "extra", {"note": "\\u0000"}, id="a backslash is no NUL"),
    ],
)
def test_what_is_kept(tmp_path: Path, changes: dict[str, Any], field: str, expected: object) -> None:
    (record,) = read_benchmark(write(tmp_path, question(0) | changes)).questions
    assert getattr(record, field) == expected


def test_line_numbers_count_blank_lines_and_nothing_but_newlines(tmp_path: Path) -> None:
    path = write(tmp_path, question(0) | {"question": "a\u2028b"}, "", "  ", "{")
    with pytest.raises(IngestError, match=r"bench\.jsonl line 4: not JSON"):
        read_benchmark(path)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\n\n"])
def test_the_last_line_may_end_as_it_likes(tmp_path: Path, ending: bytes) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_bytes(json.dumps(question(0)).encode() + ending)
    assert len(read_benchmark(path).questions) == 1


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "bench.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(question(0)).encode())
    assert len(read_benchmark(path).questions) == 1


def test_a_compressed_file_holds_the_same_content(tmp_path: Path) -> None:
    plain = write(tmp_path, question(0), question(1))
    packed = tmp_path / "bench.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    one, other = read_benchmark(plain), read_benchmark(packed)
    assert one.questions == other.questions
    assert one.content_digest == other.content_digest
    assert one.file_digest != other.file_digest


def test_the_content_digest_covers_what_a_model_sees_and_the_answer(tmp_path: Path) -> None:
    def digest(**changes: Any) -> str:
        return read_benchmark(write(tmp_path, question(0) | changes)).content_digest

    same = digest()
    assert digest(note="another key") == same
    changed = [
        digest(id="x"),
        digest(subject="other"),
        digest(context="c"),
        digest(question="Why?"),
        digest(options=["a", "b", "c", "d"]),
        digest(answer=1),
    ]
    assert len({same, *changed}) == 7


# Splits and the few-shot pool


def test_fewshot_lines_form_the_pool(tmp_path: Path) -> None:
    content = read_benchmark(write(tmp_path, question(0, split="fewshot"), question(1), question(2, split="fewshot")))
    assert [record.external_id for record in content.questions] == ["q1"]
    assert [record.external_id for record in content.pool] == ["q0", "q2"]
    assert content.split == "test"


def test_the_only_split_of_a_file_is_taken(tmp_path: Path) -> None:
    content = read_benchmark(write(tmp_path, question(0, split="validation"), question(1, split="fewshot")))
    assert (content.split, len(content.questions), len(content.pool)) == ("validation", 1, 1)


def test_one_of_several_splits_must_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path, question(0, split="dev"), question(1, split="test"))
    with pytest.raises(IngestError, match=r"has several splits \(dev, test\); choose one with --split"):
        read_benchmark(path)
    content = read_benchmark(path, split="dev")
    assert [record.external_id for record in content.questions] == ["q0"]


def test_a_pool_of_its_own_file_may_use_the_same_ids(tmp_path: Path) -> None:
    content = read_benchmark(
        write(tmp_path, question(0)), few_shot=write(tmp_path, question(0), question(1), name="pool.jsonl")
    )
    assert [record.external_id for record in content.pool] == ["q0", "q1"]
    assert content.content_digest != read_benchmark(tmp_path / "bench.jsonl").content_digest


# Shuffling options


def test_shuffled_options_keep_their_answer_and_are_the_same_every_time(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "first.jsonl", [question(number, answer=0) for number in range(40)])
    plain, once, again, other = (
        read_benchmark(path, shuffle_seed=seed).questions if seed is not None else read_benchmark(path).questions
        for seed in (None, 1, 1, 2)
    )
    assert once == again
    assert once != other
    for before, after in zip(plain, once, strict=True):
        assert sorted(after.options) == sorted(before.options)
        assert after.options[after.answer] == before.options[before.answer]
    positions = [record.answer for record in once]
    assert all(positions.count(position) >= 3 for position in range(4)), positions


def test_the_shuffled_order_sorts_the_sha_256_of_seed_and_item(tmp_path: Path) -> None:
    import hashlib

    (record,) = read_benchmark(write(tmp_path, question(0)), shuffle_seed=7).questions
    keys = [hashlib.sha256(f"7:shuffle-options:q0:0:{item}".encode()).hexdigest() for item in range(4)]
    expected = sorted(range(4), key=lambda item: keys[item])
    assert record.options == tuple(f"option 0.{item}" for item in expected)


# Tables


def test_csv_turns_nothing_into_nan(tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    options = json.dumps(["None", "NA", "=1+1"])
    frame = pd.DataFrame(
        [["NA", "None", "nan", "", options, "2"], ["7", "", "two\nlines", "null", options, "0"]],
        columns=["id", "subject", "question", "context", "options", "answer"],
    )
    frame.to_csv(path, index=False)
    first, second = read_benchmark(path).questions
    assert (first.external_id, first.subject, first.text, first.context) == ("NA", "None", "nan", None)
    assert (second.external_id, second.subject, second.text, second.context) == ("7", None, "two\nlines", "null")
    assert first.options == ("None", "NA", "=1+1")
    assert (first.answer, second.answer) == (2, 0)


def test_parquet_and_json_lines_hold_the_same_content(tmp_path: Path) -> None:
    lines = [question(0), question(1, options=3, subject=None, context="c"), question(2, split="fewshot")]
    pd.DataFrame(lines).to_parquet(tmp_path / "bench.parquet")
    table = read_benchmark(tmp_path / "bench.parquet")
    text = read_benchmark(write(tmp_path, *lines))
    assert table.content_digest == text.content_digest
    assert len(table.pool) == 1


def test_a_csv_row_longer_than_the_heading_is_refused_rather_than_shifted(tmp_path: Path) -> None:
    path = tmp_path / "bench.csv"
    # pandas would use the first cell as an index and read each column from its neighbour.
    options = '"[""a"", ""b""]"'
    path.write_text(f"id,subject,question,options,answer\nq1,s,why,{options},0,{options}\nq2,s,why,{options},1,x\n")
    with pytest.raises(IngestError, match=r"bench\.csv"):
        read_benchmark(path)


def test_the_shipped_samples_keep_the_contract() -> None:
    content = read_benchmark(MMLU)
    assert (len(content.questions), len(content.pool), content.split) == (240, 60, "test")
    assert {len(record.options) for record in content.questions} == {4}
    other = read_benchmark(MMLU.parent / "csqa.jsonl")
    assert (len(other.questions), len(other.pool)) == (200, 25)


# Names


@pytest.mark.parametrize("name", ["mmlu", "MMLU-Pro_v1.0", "a", "-", "x" * 200])
def test_a_good_name_is_kept_as_it_is(name: str) -> None:
    assert check_name("benchmark", name) == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "a@b", "a\n", "größe", ".", "..", "x" * 201, "a\0"])
def test_a_name_of_other_characters_is_refused(name: str) -> None:
    with pytest.raises(Exception, match=r"benchmark name .*: use up to 200 letters"):
        check_name("benchmark", name)


@pytest.mark.parametrize(
    ("reference", "expected"), [("m", ("m", None)), ("m@2", ("m", "2")), ("m@", ("m", "")), ("m@a@b", ("m", "a@b"))]
)
def test_a_reference_is_a_name_and_perhaps_a_version(reference: str, expected: tuple[str, str | None]) -> None:
    assert split_reference(reference) == expected


def warnings_of(folder: Path, changes: Callable[[int], dict[str, Any]], **how: Any) -> list[str]:
    lines = [question(number) | {"options": list("wxyz")} | changes(number) for number in range(12)]
    return read_benchmark(write(folder, *lines), **how).warnings


def test_labels_in_options_and_keys_from_one_cause_warnings(tmp_path: Path) -> None:
    def label(number: int) -> dict[str, Any]:
        return {"options": ["A. Oslo", "B. Rome", "C. Bonn", "D. Bern"], "answer": number % 4}

    assert warnings_of(tmp_path, lambda number: {"answer": number % 4}) == []
    (warning,) = warnings_of(tmp_path, label)
    assert warning == "the options begin with labels, such as 'A. Oslo'; --strip-labels drops them"
    assert warnings_of(tmp_path, label, strip_labels=True) == []
    (warning,) = warnings_of(tmp_path, lambda number: {"answer": 1 + number % 3})
    assert warning == "no key is 0, so the first option is never right; --one-based counts keys from 1"
    assert warnings_of(tmp_path, lambda number: {"answer": 1 + number % 4}, one_based=True) == []
    (warning,) = warnings_of(tmp_path, lambda _: {"answer": 2})
    assert warning == "the right option is number 3 in all 12 questions; --shuffle-options SEED draws an order for each"


def test_stripped_options_and_keys_from_one_are_stored_as_meant(tmp_path: Path) -> None:
    line = {"id": "q", "question": "Which?", "options": ["(A) Oslo", "(B) A. Rome"], "answer": 2}
    (record,) = read_benchmark(write(tmp_path, line), strip_labels=True, one_based=True).questions
    assert (record.options, record.answer, record.subject) == (("Oslo", "A. Rome"), 1, None)


def test_a_letter_that_no_option_has_is_refused(tmp_path: Path) -> None:
    line = question(0) | {"options": {"A": "x", "B": "y"}, "answer": "C"}
    with pytest.raises(IngestError, match="answer 'C' is none of the labels A, B; give one of them"):
        read_benchmark(write(tmp_path, line))
