"""A deployment's figures, the alerts on them, and logs that name the objects they are about."""

import json
import logging
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Engine, func, select, update

from registry.db import database_now, get_engine, write_session
from registry.queue import claims, stalls
from registry.sealed.signing import key_path, new_key, sign_head
from registry.sealed.withdrawals import withdraw
from registry.settings import Settings
from registry.tables import Evaluation, ModelRevision, Shard, Worker
from registry.tables.providers import Budget
from shuffleboard.cli.common import logging_to_stderr
from tests.support.fake_scorer import FakeScorer
from tests.support.population import queue_evaluation
from web import create_app
from workers.loop import WorkerLoop

ROOT = Path(__file__).resolve().parents[2]
ALERTS = yaml.safe_load((ROOT / "docker" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")

Figures = dict[str, list[tuple[dict[str, str], float]]]


def figures(engine: Engine, **settings: Any) -> Figures:
    """Return name → (labels, value) of every sample of /metrics."""
    url = engine.url.render_as_string(hide_password=False)
    site = create_app(Settings(**settings), database_url=url).test_client()
    values: Figures = {}
    for family in text_string_to_metric_families(site.get("/metrics").text):
        for sample in family.samples:
            values.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return values


def test_figures_of_scoring_by_host_and_device(database: str, tmp_path: Path) -> None:
    """Check four shards of four prompts: three from one device, one from another; 10 tokens and 2 s each."""
    engine = get_engine(database)
    queue_evaluation(engine, tmp_path, shards=4)
    with write_session(engine) as session:
        for name in ("one", "two"):
            session.add(Worker(id=name, host=f"host-{name}", pid=1, device="cuda:0", versions={}, queues=["cpu"]))
    for name in ("one", "one", "one", "two"):
        with write_session(engine) as session:
            claim = claims.claim(session, name, queues=["cpu"], lease_seconds=60)
            assert claim is not None
        scored = FakeScorer().score(engine, claim, lambda: False)
        with write_session(engine) as session:
            result = claims.ShardResult(scored.rows, scored.fingerprint, 30, 10, 2.0)
            assert claims.finish(session, claim, result)
    measured = figures(engine)
    by_host = {
        name: {labels["host"]: value for labels, value in measured[f"shuffleboard_worker_{name}_total"]}
        for name in ("prompts", "tokens_computed", "scoring_seconds")
    }
    assert by_host == {
        "prompts": {"host-one": 12, "host-two": 4},
        "tokens_computed": {"host-one": 30, "host-two": 10},
        "scoring_seconds": {"host-one": 6, "host-two": 2},
    }
    assert measured["shuffleboard_evaluations_unsealed"] == [({}, 1)]
    assert measured["shuffleboard_evaluations_sealed_total"] == [({}, 0)]
    size = measured["shuffleboard_database_bytes"][0][1]
    assert 500_000 < size < 100_000_000
    if engine.dialect.name == "postgresql":
        connected = sum(value for _, value in measured["shuffleboard_database_connections"])
        assert 1 <= connected <= measured["shuffleboard_database_connections_limit"][0][1]


def test_figures_of_what_nobody_sees_to(sqlite_database: str, tmp_path: Path) -> None:
    engine = get_engine(sqlite_database)
    queue_evaluation(engine, tmp_path, shards=3)
    with write_session(engine) as session:
        session.execute(update(Shard).where(Shard.id < 3).values(state="leased", lease_until=database_now(-10)))
        session.execute(update(ModelRevision).values(state="failed", error="made up"))
    measured = figures(engine)
    assert measured["shuffleboard_leases_expired"] == [({}, 2)]
    assert ({"state": "failed"}, 1) in measured["shuffleboard_model_revisions"]


def test_figures_of_what_waits_for_a_person(sqlite_filled: Engine, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    new_key(key_path(settings))
    queue_evaluation(sqlite_filled, tmp_path, benchmark="another", shards=2)
    with write_session(sqlite_filled) as session:
        session.add(Worker(id="hung", host="gpu-1", pid=7, device="cpu", queues=["cpu"], versions={}))
        session.flush()
        claim = claims.claim(session, "hung", queues=["cpu"], lease_seconds=60)
        assert claim is not None
        assert stalls.give_up(session, claim, "hung", "no progress for 300 s")
        subject = ("evaluation", str(claim.evaluation_id))
        session.add(Budget(kind=subject[0], subject=subject[1], amount=1.0, spent=1.0, refused=0.5))
        session.execute(update(Evaluation).where(Evaluation.id == claim.evaluation_id).values(state="paused"))
    measured = figures(sqlite_filled)
    assert measured["shuffleboard_shards_stalled"] == [({}, 1)]
    assert measured["shuffleboard_evaluations_out_of_budget"] == [({}, 1)]
    with write_session(sqlite_filled) as session:
        sign_head(session, settings)
    assert figures(sqlite_filled)["shuffleboard_chain_links_unsigned"] == [({}, 0)]
    with write_session(sqlite_filled) as session:
        sealed = session.scalars(select(func.max(Evaluation.id)).where(Evaluation.seal.is_not(None))).one()
        withdraw(session, sealed, "wrong")
    assert figures(sqlite_filled)["shuffleboard_chain_links_unsigned"] == [({}, 1)]


def test_sealed_evaluations_are_counted(sqlite_filled: Engine) -> None:
    assert figures(sqlite_filled)["shuffleboard_evaluations_sealed_total"] == [({}, 2)]


def test_every_figure_is_in_the_manual(postgresql_filled: Engine) -> None:
    for name in figures(postgresql_filled):
        assert f"`{name}" in OPERATIONS, name


# Alerts

FUNCTIONS = {"sum", "max", "rate", "delta", "predict_linear", "by", "and"}
"""Words of PromQL that the alerts use."""


@pytest.fixture(scope="module")
def known(request: pytest.FixtureRequest) -> Iterator[Figures]:
    """Yield the figures of a filled registry on PostgreSQL, the only engine with all of them."""
    name = request.getfixturevalue("postgresql_filled_template")
    server = request.getfixturevalue("postgres_server")
    engine = get_engine(server.database_url(name))
    yield figures(engine)
    engine.dispose()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_figures_that_exist(rule: dict[str, Any], known: Figures) -> None:
    expression = rule["expr"]
    names = set(re.findall(r"\bshuffleboard_\w+", expression))
    assert names or rule["alert"] == "WebsiteDown"
    assert names <= known.keys()
    for name, label, value in re.findall(r'(shuffleboard_\w+)\{(\w+)="(\w+)"\}', expression):
        assert any(labels.get(label) == value for labels, _ in known[name]), expression
    for name, label in re.findall(r"by \((\w+)\) \((shuffleboard_\w+)", expression):
        assert all(name in labels for labels, _ in known[label])
    # The expression preserves the labels that the texts name.
    for label in re.findall(r"\$labels\.(\w+)", str(rule["annotations"])):
        assert all(label in labels for name in names for labels, _ in known[name]), label


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_is_written_as_prometheus_reads_it(rule: dict[str, Any]) -> None:
    assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"\d+[mh]", rule.get("for", "1m"))
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert all(rule["annotations"][key].endswith((".", "}}", "}} packages.", ".")) for key in ("summary", "remedy"))
    expression = rule["expr"]
    for opening, closing in ("()", "[]", "{}"):
        assert expression.count(opening) == expression.count(closing)
    # Alerts use the rate of counters, and never the rate of gauges.
    for function, name in re.findall(r"(\w+)\((shuffleboard_\w+)\[", expression):
        assert (function == "rate") == name.endswith("_total"), expression
    bare = re.sub(r'"[^"]*"|\[\w+\]|\{[^}]*\}|shuffleboard_\w+|\bup\b|by \(\w+\)', "", expression)
    assert set(re.findall(r"[a-z_]{2,}", bare)) <= FUNCTIONS


def test_the_manual_names_the_file_of_alerts() -> None:
    assert "(../docker/prometheus/alerts.yaml)" in OPERATIONS


# Logs


@pytest.fixture
def plain_logs() -> Iterator[None]:
    """Restore the configuration of logging after the test."""
    configured, handlers = structlog.get_config(), list(logging.getLogger().handlers)
    yield
    structlog.configure(**configured)
    logging.getLogger().handlers[:] = handlers


def test_every_line_while_a_shard_is_scored_names_it(
    sqlite_database: str, tmp_path: Path, plain_logs: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Check lines of the engine and of libraries, too, and that the line about the seal names its evaluation."""
    engine = get_engine(sqlite_database)
    evaluation_id = queue_evaluation(engine, tmp_path)
    settings = Settings(home=tmp_path, poll_seconds=0.05)
    logging_to_stderr(settings)

    def speak(_prompt: object) -> None:
        structlog.get_logger().info("engine_speaks")
        logging.getLogger("some.library").warning("speaks, too")

    loop = WorkerLoop(engine, settings, FakeScorer(before_prompt=speak), ["cpu"])
    loop.start()
    loop.run(until_idle=True)
    loop.stop()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    by_event: dict[str, dict[str, Any]] = {line["event"]: line for line in lines}
    for event in ("engine_speaks", "speaks, too", "shard_done"):
        fields = by_event[event]
        assert (fields["evaluation"], fields["shard"], fields["fence"], fields["worker"]) == (
            evaluation_id,
            1,
            1,
            loop.id,
        )
        assert fields["timestamp"].endswith("Z")
    assert by_event["speaks, too"]["level"] == "warning"
    assert by_event["speaks, too"]["logger"] == "some.library"
    assert by_event["shard_done"]["prompts"] == 4
    assert by_event["evaluation_sealed"]["evaluation"] == evaluation_id
    assert "shard" not in by_event["evaluation_sealed"]
    assert by_event["worker_stopped"]["worker"] == loop.id
    assert "evaluation" not in by_event["worker_stopped"]


def test_a_website_made_by_gunicorn_logs_no_variables() -> None:
    program = """
        import shuffleboard.web
        from registry.process_log import log
        def fail(address):
            try:
                raise RuntimeError("unreachable")
            except RuntimeError:
                log.exception("failed")
        fail("postgresql://writer:a-password@host/board")
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "unreachable" in json.loads(done.stderr)["exception"]
    assert "a-password" not in done.stderr
