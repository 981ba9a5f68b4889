"""Whether errata are what the chain says, and the metrics under them what the stored answers give."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from registry.metrics import METRICS
from registry.proof.errata import errata_digest, errata_labels
from registry.proof.seal import rescored_rows
from registry.results.errata import is_of_errata, newest_errata, versions_of_errata
from registry.tables import ChainLink, ErrataVersion, Evaluation, EvaluationMetric
from registry.verification.findings import Findings, alike


def errata_problems(session: Session) -> Iterator[str]:
    """Versions of errata that do not match their digest or the chain, and those that the chain holds and are gone."""
    links = select(ChainLink.subject, ChainLink.labels).filter_by(kind="errata")
    linked = Counter((row.subject, row.labels) for row in session.execute(links))
    held: Counter[tuple[str, str | None]] = Counter()
    for errata in session.scalars(select(ErrataVersion).order_by(ErrataVersion.id)):
        version = errata.benchmark_version
        name = f"errata {errata.number} of {version.benchmark.name}@{version.version}"
        key = (errata.digest, errata_labels(errata))
        held[key] += 1
        if errata_digest(errata) != errata.digest:
            yield f"{name}: what they say does not match their digest"
        if key not in linked:
            yield f"chain: it does not contain {name} as they are stored"
    for digest, _ in linked - held:
        yield f"chain: errata {digest} are no longer in the registry, or have changed"


def check_rescored(session: Session, evaluation: Evaluation, found: Findings) -> None:
    """Every metric under every version of the errata; older ones than an evaluation need not be applied to it."""
    of = EvaluationMetric
    stored: dict[tuple[str, str], Any] = {
        (row.scope, row.metric): row
        for row in session.scalars(select(of).filter_by(evaluation_id=evaluation.id))
        if is_of_errata(row.scope)
        and row.metric in METRICS
        and row.definition_version == METRICS[row.metric].definition_version
    }
    newest = newest_errata(session, evaluation.benchmark_version_id)
    for errata in versions_of_errata(session, evaluation.benchmark_version_id):
        scopes = {scope for scope, _ in stored}
        if errata is not newest and not any(scope.endswith(f"@{errata.number}") for scope in scopes):
            continue  # sealed since
        for row in rescored_rows(session, errata, [evaluation]):
            known = stored.pop((row["scope"], row["metric"]), None)
            where = f"metric {row['metric']} ({row['scope']})"
            if known is None:
                found.add(f"{where}: missing")
                continue
            names = [name for name in row if name not in ("evaluation_id", "code_version")]
            different = [name for name in names if not alike(getattr(known, name), row[name])]
            if different:
                listed = "; ".join(f"{name} stored {getattr(known, name)}, computed {row[name]}" for name in different)
                found.add(f"{where}: {listed}")
    for scope, name in sorted(stored):
        found.add(f"metric {name} ({scope}): there are no such errata")
