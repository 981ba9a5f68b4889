"""What the pages on published results and on comparing protocols show can be done, and the numbers they state are true."""

import json
import shlex
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from registry.benchmarks import import_benchmark, read_benchmark
from registry.db import get_engine, read_session, write_session
from registry.model_revisions import RevisionRequest, add_revision
from registry.models import PublishedResult
from registry.outputs import ImportRequest, import_outputs
from registry.variants import QuestionShape, parse_variants
from tests.docs.conftest import write_block
from tests.docs.pages import DOCS, blocks, read
from tests.integration.test_command_line import run

PUBLISHED = DOCS / "published-results.md"
COMPARING = DOCS / "comparing-protocols.md"
COMMANDS = [
    line for page in (PUBLISHED, COMPARING) for block in blocks(page, "sh") for line in block.text.splitlines() if line
]


def test_the_query_finds_measured_and_printed_numbers(filled: str) -> None:
    (block,) = blocks(PUBLISHED, "sql")
    with read_session(get_engine(filled)) as session:
        rows = session.execute(text(block.text)).all()
    assert {row.origin for row in rows} >= {"measured", "printed in Cavalin et al., Table 1"}


def test_the_page_counts_the_published_results(filled: str) -> None:
    with read_session(get_engine(filled)) as session:
        count = session.scalar(select(func.count()).select_from(PublishedResult))
    assert f"{count:,} of them" in read(PUBLISHED)


@pytest.fixture
def asked_twice(sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example benchmark, answered rightly under both protocols that the page compares."""
    monkeypatch.setenv("SHUFFLEBOARD_DATABASE_URL", sqlite_database)
    engine = get_engine(sqlite_database)
    content = read_benchmark(write_block(tmp_path, "benchmark-files.md", "jsonl benchmark", "capitals.jsonl"))
    with write_session(engine) as session:
        import_benchmark(session, content, name="capitals")
        add_revision(session, "their-model", RevisionRequest("external"))
    lines = [
        json.dumps(
            {
                "question_id": question.external_id,
                "variant": variant.ordinal,
                "order": list(variant.order),
                "option": question.answer,
            }
        )
        for question in content.questions
        for variant in parse_variants("answer-moving").variants(
            QuestionShape(question.external_id, len(question.options), question.answer)
        )
    ]
    outputs = tmp_path / "answers.jsonl"
    outputs.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for shots in (0, 5):
        import_outputs(engine, ImportRequest(outputs, "their-model", "capitals", "answer-moving", shots=shots))
    return sqlite_database


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(
    command: str, asked_twice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(command)
    assert program == "shuffleboard"
    shown = run(capsys, monkeypatch, *arguments)
    if "--json" in arguments:
        json.loads(shown)
    assert len(shown.splitlines()) > 3
