"""Workers with different abilities, whose failures do not affect the others."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from registry.db import database_now, read_session, write_session
from registry.errors import ModelError, StorageError
from registry.lookups import find_evaluation
from registry.queue import claims, exclusions
from registry.queue.evaluations import move
from registry.revisions.store import ModelFiles, RevisionRequest, add_revision
from registry.settings import Settings
from registry.tables import ModelRevision, Shard, Worker
from tests.support.commands import eventually
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from workers import loop as loops
from workers.loop import WorkerLoop

pytestmark = pytest.mark.long_on("sqlite")

ILLEGAL = "CUDA error: an illegal memory access was encountered"


class Gpu(FakeScorer):
    """A scorer on a kind of device. trouble: the error that it raises while it loads a model."""

    def __init__(
        self, kind: str, place: str, trouble: Callable[[], Exception] | None = None, **options: object
    ) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.kind, self.number, self.trouble = kind, place, trouble
        self.tries = 0
        self.shards: list[int] = []

    def device(self) -> str:
        return self.kind

    def place(self) -> str:
        return self.number

    def score(self, engine: Engine, claim: claims.Claim, should_stop: Callable[[], bool]) -> claims.ShardResult:
        self.shards.append(claim.shard_id)
        return super().score(engine, claim, should_stop)

    def _load(self, model_revision_id: int) -> None:
        if self.trouble is not None and self.loaded_model_revision_id != model_revision_id:
            self.tries += 1
            raise self.trouble()
        super()._load(model_revision_id)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "BACK_OFF_SECONDS", 0.05)


def serve(engine: Engine, scorer: FakeScorer, restarts: int = 0) -> list[WorkerLoop]:
    """Run a worker until nothing is left, restarted as a supervisor does; return its loops."""
    run = []
    for _ in range(1 + restarts):
        loop = WorkerLoop(engine, Settings(poll_seconds=0.02, reconcile_seconds=0.1), scorer, ["cpu"])
        run.append(loop)
        loop.start()
        try:
            loop.run(until_idle=True)
        finally:
            loop.stop()
        if not loop.broken:
            break
        scorer.unload()
    return run


def serve_together(engine: Engine, scorers: Sequence[FakeScorer], restarts: int = 0) -> list[list[WorkerLoop]]:
    served: list[list[WorkerLoop]] = [[] for _ in scorers]

    def one(place: int) -> None:
        served[place] = serve(engine, scorers[place], restarts)

    threads = [threading.Thread(target=one, args=(place,)) for place in range(len(scorers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return served


def shard_states(engine: Engine) -> list[tuple[str, int, int, str | None]]:
    with read_session(engine) as session:
        rows = session.execute(select(Shard.state, Shard.failures, Shard.crashes, Shard.error).order_by(Shard.id))
        return [(row.state, row.failures, row.crashes, row.error) for row in rows]


def test_one_broken_device_parks_nothing_and_its_worker_ends(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=20)
    broken = Gpu("A100", "GPU 0", lambda: RuntimeError(ILLEGAL))
    healthy = [Gpu("A100", f"GPU {number}", seconds_per_prompt=0.01) for number in (1, 2, 3)]
    with write_session(engine) as session:
        scopes = exclusions.scopes_of("another host", "A100", "GPU 0")
        busy = {"id": "busy", "host": "another host", "pid": 1, "device": "A100", "queues": ["cpu"], "scopes": scopes}
        session.add(Worker(**busy, versions={}, last_seen=database_now(3600)))
    assert all(loop.broken for loop in serve(engine, broken, restarts=5))
    assert len(set(broken.shards)) == 6  # never one shard twice
    ends, *others = serve_together(engine, [broken, *healthy], restarts=40)
    assert set(shard_states(engine)) == {("done", 0, 0, None)}
    assert all(loop.broken for loop in ends[:-1])
    assert not any(loop.broken for loops_of_one in others for loop in loops_of_one)
    assert len(set(broken.shards)) == len(broken.shards)


def test_a_shard_that_breaks_the_only_device_is_parked_after_three_tries(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=2)

    def poison(item: object) -> None:
        if item.question.external_id == "q1":  # type: ignore[attr-defined]
            raise RuntimeError("CUDA error: device-side assert triggered")

    run = serve(engine, Gpu("A100", "GPU 0", before_prompt=poison), restarts=10)
    assert [loop.broken for loop in run] == [True, True, True, False]
    done, parked = shard_states(engine)
    assert done[0] == "done"
    assert parked[:3] == ("failed", 3, 0)
    assert "device-side assert" in (parked[3] or "")


def test_a_model_that_does_not_fit_is_loaded_once_per_device_kind(engine: Engine, tmp_path: Path) -> None:
    queue_evaluation(engine, tmp_path, shards=12)
    small = [Gpu("T4", f"GPU {number}", lambda: MemoryError("40 GiB more")) for number in (0, 1)]
    large = Gpu("A100", "GPU 2", seconds_per_prompt=0.02)
    serve_together(engine, [*small, large])
    assert set(shard_states(engine)) == {("done", 0, 0, None)}
    assert sum(scorer.tries for scorer in small) <= 2  # both may begin at once, and none tries again


def test_a_model_that_fits_no_live_device_fails_until_retried(engine: Engine, tmp_path: Path) -> None:
    evaluation_id = queue_evaluation(engine, tmp_path, shards=12)
    small = Gpu("T4", "GPU 0", lambda: MemoryError("40 GiB more"))
    serve(engine, small)
    assert small.tries == 1
    assert {state for state, *_ in shard_states(engine)} == {"failed"}
    assert {error for *_, error in shard_states(engine)} == {
        "T4: the model does not fit in memory: MemoryError: 40 GiB more"
    }
    with write_session(engine) as session:
        move(session, evaluation_id, "retry")
    serve(engine, Gpu("T4", "GPU 0"))
    with read_session(engine) as session:
        assert find_evaluation(session, evaluation_id).state == "complete"


def test_a_host_whose_disk_is_full_leaves_the_model_to_others(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue_evaluation(engine, tmp_path, shards=8)
    monkeypatch.setattr(loops.socket, "gethostname", lambda: threading.current_thread().name)
    full = Gpu("A100", "GPU 0", lambda: StorageError("/models: cannot be written (no space left)"))
    scorers = {"small": full, "large": Gpu("A100", "GPU 0", seconds_per_prompt=0.02)}
    threads = [threading.Thread(target=serve, args=(engine, scorers[host]), name=host) for host in scorers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(shard_states(engine)) == {("done", 0, 0, None)}
    assert full.tries == 1


# Preparing models


FILES = ModelFiles("0" * 64, "1" * 64, None)


def register(engine: Engine, tmp_path: Path) -> int:
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (folder / name).write_bytes(b"{}")
    with write_session(engine) as session:
        return add_revision(session, "waiting", RevisionRequest("huggingface", str(folder)))[0].id


def live(engine: Engine) -> int:
    with read_session(engine) as session:
        return claims.live_workers(session)


def prepare_on(engine: Engine, hosts: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a worker on each host, which runs until all have looked for models."""
    monkeypatch.setattr(loops.socket, "gethostname", lambda: threading.current_thread().name)
    together = threading.Barrier(len(hosts))

    def one() -> None:
        loop = WorkerLoop(engine, Settings(poll_seconds=0.02), FakeScorer(), ["cpu"])
        loop.start()
        together.wait()
        loop.maintain()
        together.wait()
        loop.stop()

    threads = [threading.Thread(target=one, name=host) for host in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_model_is_prepared_by_one_worker_only(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision_id = register(engine, tmp_path)
    prepared: list[str] = []

    def slow(*_: object) -> ModelFiles:
        prepared.append(threading.current_thread().name)
        time.sleep(0.3)
        return FILES

    monkeypatch.setattr(loops, "inspect_files", slow)
    prepare_on(engine, ["a", "b", "c", "d", "e"], monkeypatch)
    assert len(prepared) == 1
    with read_session(engine) as session:
        assert session.get_one(ModelRevision, revision_id).state == "ready"


def test_a_full_disk_does_not_fail_a_model_that_others_can_prepare(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision_id = register(engine, tmp_path)

    def inspect(*_: object) -> ModelFiles:
        if threading.current_thread().name == "small":
            eventually(lambda: live(engine) == 2, "both sign on")  # or no other host is known that could do it
            raise StorageError("no space")
        return FILES

    monkeypatch.setattr(loops, "inspect_files", inspect)
    prepare_on(engine, ["small", "large"], monkeypatch)
    prepare_on(engine, ["large"], monkeypatch)
    with read_session(engine) as session:
        assert session.get_one(ModelRevision, revision_id).state == "ready"


def test_a_model_that_no_host_can_prepare_fails_and_can_be_retried(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision_id = register(engine, tmp_path)
    tries: list[str] = []

    def inspect(*_: object) -> ModelFiles:
        tries.append("")
        raise ModelError("no such model")

    monkeypatch.setattr(loops, "inspect_files", inspect)
    prepare_on(engine, ["only"], monkeypatch)
    with read_session(engine) as session:
        revision = session.get_one(ModelRevision, revision_id)
        assert (revision.state, revision.error) == ("failed", "no such model")
    assert len(tries) == 1
    with write_session(engine) as session:
        add_revision(session, "waiting", RevisionRequest("huggingface", str(tmp_path / "model")))
    monkeypatch.setattr(loops, "inspect_files", lambda *_: FILES)
    prepare_on(engine, ["only"], monkeypatch)
    with read_session(engine) as session:
        assert session.get_one(ModelRevision, revision_id).state == "ready"
