"""The command `shuffleboard audit`: its output, its status, and its requirements."""

import gzip
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest
import yaml

from registry.logs.audit.report import audit
from registry.prompting.labels import LETTERS
from tests.audit.logs import FAULTS, WRITERS, clean, write_every_eval_ever, write_harness, write_helm, write_inspect
from tests.docs.pages import DOCS
from tests.outputs.logs import INSPECT
from tests.support.commands import shuffleboard, shuffleboard_json


def test_the_documented_job_fails_at_a_faulty_log_with_the_reason(tmp_path, monkeypatch):
    page = (DOCS / "how-to" / "audit-logs.md").read_text(encoding="utf-8")
    job = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    (inputs,) = (step["with"] for step in job["jobs"]["audit"]["steps"] if "paths" in step.get("with", {}))
    command = f"shuffleboard audit {inputs['paths']} --fail-on {inputs['fail-on']}"
    monkeypatch.chdir(tmp_path)
    write_harness(FAULTS["answers-lost"](clean(1), random.Random(1)), tmp_path / "logs")
    failed = shuffleboard(*shlex.split(command)[1:], status=1)
    assert "ERROR SB301 answers-lost" in failed.stdout
    assert "→ Read the texts again" in failed.stdout
    for line in failed.stdout.splitlines():
        assert len(line) <= 80, line
    (tmp_path / "good").mkdir()
    write_harness(clean(1), tmp_path / "good" / "logs")
    monkeypatch.chdir(tmp_path / "good")
    shuffleboard(*shlex.split(command)[1:], status=0)


def test_the_document_has_the_keys_of_the_contract(tmp_path):
    path = write_inspect(FAULTS["contradictory-keys"](clean(1), random.Random(1)), tmp_path)
    document = shuffleboard_json("audit", path, "--fail-on", "never")
    assert document.keys() >= {"logs", "findings"}
    for finding in document["findings"]:
        assert finding.keys() >= {"id", "severity", "log", "places", "remedy"}
        assert len(finding["places"]) <= 3
    (log,) = document["logs"]
    assert (log["answers"], log["model"], log["format"]) == (125, "org/model", "inspect")
    assert log["chance"] == pytest.approx(0.25)


def test_the_page_is_one_file_without_scripts_and_escapes_what_logs_say(tmp_path):
    log = clean(1)
    log.model = "<script>alert(1)</script>"
    page = tmp_path / "page.html"
    shuffleboard("audit", write_every_eval_ever(log, tmp_path), "--html", page)
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(?:src|href)=", text)
    assert "<svg" in text


def test_two_models_are_compared_over_their_common_questions(tmp_path):
    for number, fault in enumerate(("no-better-than-guessing", "repeated-options")):
        log = FAULTS[fault](clean(1), random.Random(number))
        log.model = f"org/{fault}"
        (tmp_path / fault).mkdir()
        write_inspect(log, tmp_path / fault)
    (group,) = shuffleboard_json("audit", tmp_path, "--fail-on", "never")["comparisons"]
    (pair,) = group["pairs"]
    assert abs(pair["difference"]) > 0.3
    assert pair["p_value"] < 0.001
    assert 0 < pair["seen"] < 0.3


def test_what_is_no_log_is_refused_in_one_line(tmp_path):
    other = tmp_path / "notes.json"
    other.write_text(json.dumps({"a": 1}))
    for path in (other, tmp_path / "nowhere", tmp_path):
        refused = shuffleboard("audit", path, status=1)
        assert refused.stderr.startswith("Error: ")
        assert refused.stderr.count("\n") == 1


def test_what_cannot_be_read_is_named_and_the_rest_is_audited(tmp_path):
    folder = write_harness(clean(1), tmp_path)
    (samples,), (results,) = folder.glob("samples_*"), folder.glob("results_*")
    lines = samples.read_text(encoding="utf-8").splitlines()
    lines[3] = lines[3].replace("[[", '[["\\ud83d\\u0000 "], [', 1)  # models write it, and no database can store it
    lines[5] = lines[5].replace('"exact_match": 0.0', '"exact_match": NaN').replace(": 1.0", ": NaN")
    lines[40] = lines[40][:50]
    samples.write_text("\n".join(lines), encoding="utf-8")
    results.write_text(results.read_text(encoding="utf-8")[:40], encoding="utf-8")
    (tmp_path / "samples_b.jsonl").write_text('{"doc_id": ', encoding="utf-8")
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    (tmp_path / "loop.jsonl").symlink_to(tmp_path / "loop.jsonl")
    (tmp_path / "nowhere.json").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.jsonl")
    page = tmp_path / "page.html"
    document = shuffleboard_json("audit", tmp_path, "--html", page, "--fail-on", "never")
    (log,) = document["logs"]
    assert log["answers"] == 119
    unread = [(finding["log"], finding["places"]) for finding in document["findings"] if finding["id"] == "SB101"]
    assert unread[0] == (log["log"], ["line 41", samples.name])
    named = {"samples_b.jsonl", "cut.parquet", "loop.jsonl", "nowhere.json", "pipe.jsonl"}
    assert {name for name, _ in unread[1:]} == named


def test_a_damaged_sample_of_a_document_is_named_and_others_read(tmp_path):
    document = json.loads((INSPECT / "permuted.json").read_text(encoding="utf-8"))
    samples = len(document["samples"])
    document["samples"][1], document["samples"][2]["choices"] = None, 7
    (tmp_path / "inspect.json").write_text(json.dumps(document), encoding="utf-8")
    helm = write_helm(clean(1), tmp_path) / "scenario_state.json"
    document = json.loads(helm.read_text(encoding="utf-8"))
    requests = document["request_states"]
    requests[1], requests[2]["instance"], requests[3]["result"]["completions"] = None, 7, [[]]
    helm.write_text(json.dumps(document), encoding="utf-8")
    report = shuffleboard_json("audit", tmp_path, "--fail-on", "never")
    assert {log["format"]: log["answers"] for log in report["logs"]} == {"inspect": samples - 2, "helm": 117}
    named = {
        place for finding in report["findings"] if finding["id"] in ("SB101", "SB102") for place in finding["places"]
    }
    assert named == {"sample 2", "sample 3", "request 1", "request 2", "request 3"}


def test_numbers_that_cannot_be_are_named_and_the_other_records_are_read(tmp_path):
    path = tmp_path / "o.jsonl"
    honest: dict[str, Any] = {"question_id": "q", "variant": 0, "order": list(range(300)), "position": 299}
    wrong = [
        {"position": "1"},
        {"position": 300},
        {"position": 0.0},
        {"position": True},
        {"variant": 2**64},
        {"order": list(range(40_000))},
    ]
    path.write_text("".join(json.dumps(honest | change) + "\n" for change in ({}, *wrong, {})), encoding="utf-8")
    report = shuffleboard_json("audit", path, "--fail-on", "never", "--places", 9)
    assert [log["answers"] for log in report["logs"]] == [2]
    named = [place for finding in report["findings"] if finding["id"] == "SB102" for place in finding["places"]]
    assert named == [f"line {number}" for number in range(2, 8)]


@pytest.mark.parametrize("shown", [True, False])
def test_a_text_without_end_is_a_thought_if_the_template_began_it(tmp_path, shown):
    """Check that a prompt that begins a thought is recognised, since most texts only close a thought."""
    log = clean(1)
    begun = "<|im_start|>assistant\n<think>\n" if shown else ""
    log.items = [
        replace(item, prompt=item.prompt + begun, said=f"Hmm, B?\n</think>\nAnswer: {LETTERS[item.recorded]}")
        for item in log.items
    ]
    log.items[7] = replace(log.items[7], said="First, A? The answer is A. But", recorded=None, score=0.0)
    (audited,) = shuffleboard_json("audit", write_harness(log, tmp_path), "--fail-on", "never")["logs"]
    assert (audited["states"]["answered"], audited["states"]["unfinished"]) == (119, 1)


def test_logs_of_one_name_are_told_apart_by_where_they_lie(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_inspect(clean(1), tmp_path / name)
    document = shuffleboard_json("audit", tmp_path, "--fail-on", "never")
    assert [log["log"] for log in document["logs"]] == [f"org/model · mmlu_1 [{name}/mmlu_1.eval]" for name in "ab"]
    assert [finding["name"] for finding in document["findings"]] == ["same-answers"]


def test_all_places_are_listed_if_asked_for(tmp_path):
    path = write_inspect(FAULTS["duplicate-questions"](clean(1), random.Random(1)), tmp_path)
    listed = shuffleboard("audit", path, "--places", 5, "--fail-on", "never").stdout
    assert len(re.findall(r"^    record", listed, re.MULTILINE)) == 5


def test_what_a_log_says_does_not_steer_the_terminal(tmp_path):
    log = clean(1)
    log.model = "\x1b[31mred\nmodel"
    assert "\x1b" not in shuffleboard("audit", write_inspect(log, tmp_path)).stdout


@pytest.mark.parametrize("format_", WRITERS)
def test_garbage_in_any_field_never_ends_an_audit(tmp_path, format_):
    """Replace every value of a record by others in turn, each of which must be read or reported."""
    path = WRITERS[format_](clean(3, count=4), tmp_path)
    if format_ in ("lighteval", "inspect"):
        return  # typed columns and an archive, whose readers refuse as the import's readers do
    files = [
        file for file in ([path] if path.is_file() else sorted(path.rglob("*.json*"))) if "result" not in str(file)
    ]
    for file in files:
        content = file.read_text(encoding="utf-8")
        for wrong in (None, 7, "x", [], {}, [{}]):
            lines = [
                json.dumps(_spoilt(json.loads(line), wrong, draw)) for draw, line in enumerate(content.splitlines())
            ]
            file.write_text("\n".join(lines), encoding="utf-8")
            done = shuffleboard("audit", path, "--fail-on", "never", "--json", status=None)
            assert "Traceback" not in done.stderr
        file.write_text(content, encoding="utf-8")


def _spoilt(document, wrong, at):
    """Return the document with the innermost value number `at` replaced."""
    places = []

    def walk(value, path):
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            places.append((value, key))
            walk(inner, (*path, key))

    walk(document, ())
    for value, key in places[at % 7 :: 7]:
        value[key] = wrong
    return document


def test_an_audit_loads_no_database_library_and_no_torch(tmp_path):
    path = write_harness(clean(1, count=30), tmp_path)
    code = "import sys; from shuffleboard import audit; audit.run(sys.argv[1:]).text(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, env=os.environ.copy()
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"sqlalchemy", "torch", "pandas", "pyarrow", "duckdb", "flask", "celery"}


def test_a_log_of_the_inspect_extension_has_orders():
    (log,) = shuffleboard_json("audit", INSPECT / "permuted.json", "--fail-on", "never")["logs"]
    assert (log["answers"], log["questions"], log["orders"]["orders"]) == (50, 5, 5)
    assert log["orders"]["repeats"] > 0


def test_a_log_of_line_ends_only_is_refused_early(tmp_path):
    log = tmp_path / "log.jsonl.gz"
    with gzip.open(log, "wb", compresslevel=1) as stream:
        stream.write(b"\n" * 1_000_002)
    assert "has more than 1,000,000 empty lines" in " ".join(shuffleboard("audit", log, status=1).stdout.split())


def test_an_answer_of_three_million_characters_is_named_and_left_out(tmp_path):
    write_harness(clean(1), tmp_path)
    (log,) = tmp_path.glob("**/*.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    lines[2]["resps"] = lines[2]["filtered_resps"] = [["so " * 1_000_000]]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    started = time.process_time()
    report = shuffleboard("audit", log, status=None).stdout
    assert time.process_time() - started < 10
    assert "characters, over the limit of 1,048,576" in " ".join(report.split())


def test_a_log_that_takes_too_long_is_read_in_part_with_notice(tmp_path):
    write_harness(clean(1), tmp_path)
    report = audit([tmp_path], seconds=0)
    (finding,) = (
        reported for reported in report.findings if reported.kind.id == "SB101" or "--seconds" in str(reported)
    )
    assert "was read for 0 s, up to its beginning; divide it, or allow more with --seconds" in str(finding)
