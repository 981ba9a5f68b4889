"""Filters that several commands share: checks of names, and the message if nothing matches."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

import click
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.errors import UsageError
from registry.leaderboard.selection import Selection
from registry.lookups import find_revision, find_version
from registry.prompting.protocols.store import find_definition
from registry.prompting.variants import parse_variants
from registry.proposals import propose
from registry.tables import Evaluation, VariantSet

Function = TypeVar("Function", bound=Callable[..., Any])

_FILTERS: Final = (
    click.option("--benchmark", default=None, help="Only this benchmark."),
    click.option("--model", default=None, help="Only this model."),
    click.option("--variants", default=None, help="Only this set of variants, such as cyclic."),
    click.option("--protocol", default=None, help="Only this protocol."),
)


def filter_options(command: Function) -> Function:
    """Add `--benchmark`, `--model`, `--variants` and `--protocol`."""
    for option in reversed(_FILTERS):
        command = option(command)
    return command


def selection_of(
    session: Session,
    *,
    benchmark: str | None,
    model: str | None,
    variants: str | None,
    protocol: str | None,
) -> Selection:
    """Return the selection that the filters describe. Raises an error, such as NotFoundError, for unknown names."""
    for option, value in (("--benchmark", benchmark), ("--model", model)):
        if value is not None and "@" in value:
            raise UsageError(f"{option} {value!r}: every version is shown; leave out @{value.partition('@')[2]}")
    if benchmark is not None:
        benchmark = find_version(session, benchmark).benchmark.name
    if model is not None:
        model = find_revision(session, model).model.name
    if protocol is not None:
        find_definition(session, protocol)
    return Selection(
        benchmark=benchmark,
        model=model,
        variants=None if variants is None else parse_variants(variants, read_files=True).name,
        protocol=protocol,
    )


def require_known(
    session: Session, *, benchmarks: Iterable[str] = (), models: Iterable[str] = (), protocols: Iterable[str] = ()
) -> None:
    """Raise NotFoundError or ProtocolError for a name that is not in the registry. protocols: NAME or NAME:SHOTS."""
    for name in benchmarks:
        find_version(session, name)
    for name in models:
        find_revision(session, name)
    for name in protocols:
        find_definition(session, name.partition(":")[0])


def nothing_matches(session: Session, given: dict[str, str | None]) -> str:
    """Return the message for filters that match no evaluation, or for an empty registry."""
    stored = session.scalar(select(func.count()).select_from(Evaluation))
    if not stored:
        return f"no evaluation yet; queue one: {propose('evaluations submit', '…')}"
    filters = " ".join(f"--{name} {value}" for name, value in given.items() if value is not None)
    used = select(VariantSet.name).where(VariantSet.id.in_(select(Evaluation.variant_set_id)))
    return (
        f"no evaluation matches {filters}; the registry has {stored}, under the variants "
        f"{', '.join(session.scalars(used.order_by(VariantSet.name)))} ({propose('evaluations list')})"
    )
