"""An audit and an import, which must read the same answer in every record of a log."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from registry.logs.audit.gathered import Gathered, Questions
from registry.logs.audit.readers import files_of, sources_of
from registry.logs.formats import FORMATS
from registry.logs.recognition import log_file, read_log
from registry.logs.record import KnownQuestion, Recorded
from tests.audit.logs import WRITERS, clean
from tests.outputs.logs import agree


@pytest.mark.parametrize("benchmark", ["mmlu", "csqa"])
@pytest.mark.parametrize("format_", WRITERS)
def test_an_audit_and_an_import_read_the_same_answers(tmp_path: Path, format_: str, benchmark: str) -> None:
    log = clean(5, benchmark)
    questions = {
        item.id: KnownQuestion(number, item.id, number, item.question, item.options, item.key)
        for number, item in enumerate(log.items)
    }
    folder = WRITERS[format_](log, tmp_path)
    (path,) = (file for file in files_of(folder) if sources_of(file, {}))
    (source,) = sources_of(path, {})
    audited = Gathered(source, Questions()).read()
    answers: Iterable[Recorded]
    if (read_lines := FORMATS[format_].read_lines) is not None:
        answers = read_lines(path, questions)
    else:
        file = log_file(path)
        assert file is not None
        answers = read_log(file, questions).recorded
    imported = agree(answers)
    assert len(imported) == len(audited) == len(log.items)
    positions = [-1 if item.position is None else item.position for item in imported]
    assert audited.column("position").tolist() == positions
    assert [item.order.index(item.question.answer) for item in imported] == audited.column("key").tolist()
