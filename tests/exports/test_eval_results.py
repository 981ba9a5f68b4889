"""Files for `.eval_results/` of Hugging Face's hub, read by the hub's own library."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResultEntry, parse_eval_result_entries
from sqlalchemy import text, update

from registry.db import read_session, write_session
from registry.errors import NotFoundError, UsageError
from registry.exchange.exports import ExportRequest, export
from registry.tables import BenchmarkVersion
from tests.exports.conftest import Filled, fill, many_evaluations

pytestmark = pytest.mark.one_engine


@pytest.fixture(scope="module")
def on_the_hub(lasting_sqlite: Callable[[], str], tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Return the registry with the benchmarks of a data set of the hub."""
    filled = fill(lasting_sqlite(), tmp_path_factory.mktemp("hub"))
    with write_session(filled.engine) as session:
        values = {"source": "https://huggingface.co/datasets/example/odd"}
        session.execute(update(BenchmarkVersion).values(values))
    return filled


SPECIFICATION = Path(__file__).parents[1] / "data" / "hugging_face" / "eval_results.yaml"
ALL_TASKS = ("odd=odd_all", "odd:right_twice_across_orders=odd_two", "odd:order_loss=odd_loss")


def _fields(entry: dict[str, Any], prefix: str = "") -> set[str]:
    """Return the fields of an entry, those within others as `dataset.id`."""
    names = set()
    for name, value in entry.items():
        names |= _fields(value, f"{name}.") if prefix == "" and name in ("dataset", "source") else {prefix + name}
    return names


def _read_specified() -> tuple[set[str], set[str]]:
    """Return the fields of the specification, and the fields of its shortest example."""
    longest, shortest = yaml.safe_load(SPECIFICATION.read_text(encoding="utf-8"))
    return _fields(longest), _fields(shortest)


def _read(out: Path, manifest: dict[str, Any]) -> Iterator[tuple[str, list[EvalResultEntry]]]:
    permitted, required = _read_specified()
    for file in manifest["files"]:
        documents = yaml.safe_load((out / file["file"]).read_text(encoding="utf-8"))
        for document in documents:
            assert required <= _fields(document) <= permitted
            assert isinstance(document["date"], str)
        yield file["file"], parse_eval_result_entries(documents)


def _run_export(filled: Filled, out: Path, *tasks: str) -> dict[str, EvalResultEntry]:
    manifest = export(filled.engine, ExportRequest("eval-results", tasks=tasks), out)
    return {file: entry for file, [entry] in _read(out, manifest)}


def test_the_hubs_library_reads_the_registrys_accuracies(on_the_hub: Filled, tmp_path: Path) -> None:
    entries = _run_export(on_the_hub, tmp_path / "out", "odd=odd_all")
    with read_session(on_the_hub.engine) as session:
        query = text(
            "SELECT value FROM evaluation_metrics WHERE metric = 'accuracy' AND scope = 'all' "
            "AND evaluation_id IN (:odd, :other)"
        )
        expected = session.scalars(query, {"odd": on_the_hub.odd, "other": on_the_hub.other}).all()
    assert sorted(entry.value for entry in entries.values()) == pytest.approx(sorted(expected), abs=0)
    assert {file.rpartition("/")[0] for file in entries} == {"local/m/.eval_results", "local/n/.eval_results"}
    entry = next(iter(entries.values()))
    assert (entry.dataset_id, entry.task_id, entry.source_url) == ("example/odd", "odd_all", None)
    assert str(entry.date).endswith("Z")
    assert str(entry.notes).startswith("symbols, 0-shot, cyclic, 3 questions; accuracy 0.")


def test_a_registry_with_an_address_is_the_source(
    on_the_hub: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUFFLEBOARD_PUBLIC_URL", "https://boards.example.org/")
    urls = {entry.source_url for entry in _run_export(on_the_hub, tmp_path / "out", "odd=x").values()}
    assert urls == {f"https://boards.example.org/evaluations/{id_}" for id_ in (on_the_hub.odd, on_the_hub.other)}


def test_a_task_that_is_not_known_is_asked_for(on_the_hub: Filled, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"give --task odd=TASK, a task that eval\.yaml of example/odd defines"):
        _run_export(on_the_hub, tmp_path / "out")
    with pytest.raises(UsageError, match=r"--task 'odd': give BENCHMARK=TASK"):
        _run_export(on_the_hub, tmp_path / "out", "odd")
    with pytest.raises(UsageError, match="worst_accuracy is not exported; give one of accuracy, right_twice"):
        _run_export(on_the_hub, tmp_path / "out", "odd:worst_accuracy=x")
    assert not (tmp_path / "out").exists()


def test_benchmarks_from_elsewhere_have_nothing_to_show_there(sqlite_filled: Filled, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="on a data set of the hub is selected"):
        _run_export(sqlite_filled, tmp_path / "out", "odd=x")


def test_twenty_evaluations_have_an_entry_for_each_task(sqlite_database: str, tmp_path: Path) -> None:
    registry = many_evaluations(sqlite_database, tmp_path, 20)
    with write_session(registry.engine) as session:
        session.execute(update(BenchmarkVersion).values(source="https://huggingface.co/datasets/example/odd"))
    manifest = export(registry.engine, ExportRequest("eval-results", tasks=ALL_TASKS), tmp_path / "out")
    by_file = dict(_read(tmp_path / "out", manifest))
    assert len(by_file) == 20
    with read_session(registry.engine) as session:
        query = text("SELECT evaluation_id, metric, value FROM evaluation_metrics WHERE scope = 'all'")
        values = {(row.evaluation_id, row.metric): row.value for row in session.execute(query)}
    expected = sorted(
        tuple(values[id_, name] for name in ("accuracy", "right_twice_across_orders", "order_loss"))
        for id_ in {id_ for id_, _ in values}
    )
    shown = []
    for entries in by_file.values():
        assert [entry.task_id for entry in entries] == ["odd_all", "odd_two", "odd_loss"]
        [notes] = {entry.notes for entry in entries}
        assert f"right in two orders {entries[1].value:.4f}, order loss {entries[2].value:.4f}" in str(notes)
        shown.append(tuple(entry.value for entry in entries))
    assert sorted(shown) == expected
