"""Files for `.eval_results/` of Hugging Face's hub, read by the hub's own library."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from huggingface_hub import EvalResultEntry, parse_eval_result_entries
from sqlalchemy import text, update

from registry.db import read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.exchange.exports import ExportRequest, export
from registry.tables import BenchmarkVersion
from tests.exports.conftest import Filled, fill

pytestmark = pytest.mark.one_engine


@pytest.fixture(scope="module")
def on_the_hub(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """The registry, its benchmarks being those of a data set of the hub."""
    filled = fill(lasting_sqlite(), tmp_path_factory.mktemp("hub"))
    with write_session(filled.engine) as session:
        values = {"source": "https://huggingface.co/datasets/example/odd"}
        session.execute(update(BenchmarkVersion).values(values))
    return filled


def _exported(filled: Filled, out: Path, *tasks: str) -> dict[str, EvalResultEntry]:
    manifest = export(filled.engine, ExportRequest("eval-results", tasks=tasks), out)
    found = {}
    for entry in manifest["files"]:
        documents = yaml.safe_load((out / entry["file"]).read_text(encoding="utf-8"))
        [found[entry["file"]]] = parse_eval_result_entries(documents)
    return found


def test_the_hubs_library_reads_the_registrys_accuracies(on_the_hub: Filled, tmp_path: Path) -> None:
    found = _exported(on_the_hub, tmp_path / "out", "odd=odd_all")
    with read_session(on_the_hub.engine) as session:
        query = text(
            "SELECT value FROM evaluation_metrics WHERE metric = 'accuracy' AND scope = 'all' "
            "AND evaluation_id IN (:odd, :other)"
        )
        expected = session.scalars(query, {"odd": on_the_hub.odd, "other": on_the_hub.other}).all()
    assert sorted(entry.value for entry in found.values()) == pytest.approx(sorted(expected), abs=0)
    assert {file.rpartition("/")[0] for file in found} == {"local/m/.eval_results", "local/n/.eval_results"}
    entry = next(iter(found.values()))
    assert (entry.dataset_id, entry.task_id, entry.source_url) == ("example/odd", "odd_all", None)
    assert str(entry.date).endswith("Z")
    assert str(entry.notes).startswith("symbols, 0-shot, cyclic, 3 questions; seal ")


def test_a_registry_with_an_address_is_the_source(
    on_the_hub: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_PUBLIC_URL", "https://boards.example.org/")
    urls = {entry.source_url for entry in _exported(on_the_hub, tmp_path / "out", "odd=x").values()}
    assert urls == {f"https://boards.example.org/evaluations/{id_}" for id_ in (on_the_hub.odd, on_the_hub.other)}


def test_a_task_that_is_not_known_is_asked_for(on_the_hub: Filled, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give --task odd=TASK, a task that eval\.yaml of example/odd defines"):
        _exported(on_the_hub, tmp_path / "out")
    with pytest.raises(UsageError, match=r"--task 'odd': give BENCHMARK=TASK"):
        _exported(on_the_hub, tmp_path / "out", "odd")
    assert not (tmp_path / "out").exists()


def test_benchmarks_from_elsewhere_have_nothing_to_show_there(sqlite_filled: Filled, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="on a data set of the hub is selected"):
        _exported(sqlite_filled, tmp_path / "out", "odd=x")
