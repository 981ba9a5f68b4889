"""`shuffleboard models`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from sqlalchemy import Engine, select

from registry.db import MAX_ROW_ID, pick, read_session, write_session
from registry.errors import ModelError, NotFoundError, UsageError
from registry.lookups import find_of_hub, find_revision, is_hub_name, model_named
from registry.names import split_reference
from registry.operations.opening import engine_of
from registry.proposals import propose
from registry.revisions.endpoints import provider_of
from registry.revisions.store import (
    DTYPES,
    QUANTISATIONS,
    ModelFiles,
    RevisionRequest,
    add_revision,
    describe,
    is_local,
    rename,
    twins,
)
from registry.settings import Settings
from registry.tables import MODEL_KINDS, Model, ModelRevision
from shuffleboard.cli.common import json_option, note, print_document, settings_of, tell
from shuffleboard.cli.groups import Group
from shuffleboard.cli.tables import parse_headings, print_table, show, table_options

PROVIDERS = ("anthropic", "azure", "openrouter")
KINDS = (*MODEL_KINDS, *PROVIDERS)
"""Values of --kind. A provider's name means `openai`, a model on an endpoint of that provider."""


@click.group(cls=Group)
def models() -> None:
    """Register and list models."""


@models.command("add")
@click.argument("name")
@click.option(
    "--kind",
    default=None,
    type=click.Choice(KINDS),
    help="huggingface: a folder or hub name; gguf: a file; external: outputs are imported; openai: a server with an "
    "OpenAI-compatible API; anthropic, azure, openrouter: that provider's endpoint.",
)
@click.option("--location", default=None, help="Folder, .gguf file, hub name, or URL of an endpoint.")
@click.option(
    "--revision",
    default=None,
    help="Hub branch, tag or commit, resolved to a commit; for openai: the model's name on its server.",
)
@click.option(
    "--key",
    default=None,
    help="For openai: name of the endpoint whose key is to be sent; refused if another endpoint's would be.",
)
@click.option(
    "--dtype", default=None, help=f"{', '.join(DTYPES)}. Default: float32; on a host with an NVIDIA GPU bfloat16."
)
@click.option("--quantisation", default=None, help=f"{', '.join(QUANTISATIONS)}. Default: none.")
@click.option(
    "--base",
    default=None,
    metavar="MODEL[@REVISION]",
    help="Registered model that the adapter is for, instead of --kind, --location and --revision.",
)
@click.option(
    "--adapter",
    "adapters",
    multiple=True,
    metavar="FOLDER|OWNER/NAME[@COMMIT]",
    help="LoRA adapter of PEFT's: its folder, or its name on the hub.",
)
@click.option(
    "--merged/--unmerged",
    default=None,
    help="Add the adapter to the weights, or compute it separately (default): the numbers differ.",
)
@click.option("--family", default=None, help="Family shown on the board, such as SmolLM2.")
@click.option("--developer", default=None, help="Who made it.")
@click.option("--parameters", type=click.IntRange(1, MAX_ROW_ID), default=None, help="Number of parameters.")
@click.option("--licence", default=None, help="Licence of the weights.")
@click.option("--released", default=None, metavar="YYYY-MM-DD", help="Day of its release.")
@click.option("--url", default=None, help="Page about the model.")
@json_option
def add_command(
    name: str,
    kind: str | None,
    location: str | None,
    revision: str | None,
    key: str | None,
    dtype: str | None,
    quantisation: str | None,
    base: str | None,
    adapters: tuple[str, ...],
    merged: bool | None,
    **description: Any,
) -> None:
    """Register model NAME. The same name with other files or another precision is its next revision.

    Weights must be safetensors or GGUF: pickles can run code when loaded and are refused, as is code that comes
    with a model. The files are hashed before the revision can be used.

    A model that is registered already is described with --family, --developer, --parameters, --licence,
    --released and --url alone.

    An adapter is registered with its base: --base names a registered model, or --kind and --location its files.

    An endpoint must be listed in the file that SHUFFLEBOARD_ENDPOINTS names, and is asked whether it serves the model.
    Its key is never given here: the file names the place of the key.
    """
    settings = settings_of()
    if len(adapters) > 1:
        raise UsageError(
            f"--adapter: {len(adapters)} are given and a revision has one; combine them with PEFT "
            "(add_weighted_adapter)"
        )
    adapter = next(iter(adapters), None)
    engine = engine_of(settings)
    files_given = (kind, location, revision, key, dtype, quantisation, base, adapter, merged)
    if all(value is None for value in files_given) and any(value is not None for value in description.values()):
        _describe(engine, name, description)
        return
    if base is None:
        if kind is None:
            raise UsageError(f"give --kind: {', '.join(KINDS)}; or --base for an adapter of a registered model")
        kind = _find_stored_kind(kind, location, settings)
        dtype = dtype or _default_precision(kind)
        request = RevisionRequest(kind, location, revision, dtype, quantisation, adapter, merged, key).checked()
        files = inspect_here(request, settings)
    else:
        if adapter is None:
            raise UsageError("--base: name the adapter, too: --adapter")
        if any(value is not None for value in (kind, location, revision, key)):
            raise UsageError("--base: says what --kind, --location, --revision and --key do; leave them out")
        request, digest = _on_base(engine, base, dtype, quantisation, adapter, merged=merged)
        files = inspect_here(request, settings)
        if files is not None and files.base_digest != digest:
            raise ModelError(f"{base}: its files at {request.location} have changed since it was registered")
    with write_session(engine) as session:
        registered = model_named(session, name)
        changed = [] if registered is None else describe(registered, description)
        row, new = add_revision(session, name, request, description, files)
        document = _document(row)
        same = twins(session, row)
    if print_document(document | {"added": new, "updated": changed, "twins": same}):
        return
    state = "registered" if new else "is already registered"
    click.echo(f"{document['name']}@{row.number} {state}; {row.state}{_now(changed, document)}")
    if same:
        note(f"the same weights as {', '.join(same)}")
    if row.state != "ready":
        next_step = "checks its endpoint" if kind == "openai" else "hashes its files"
        note(f"a worker {next_step} next; it can be used after that")


def _default_precision(kind: str) -> str | None:
    """Return bfloat16 for files on a host with a GPU, where float32 is several times slower; None for the default."""
    from workers.fingerprint import driver_version

    if kind not in ("huggingface", "gguf") or driver_version() is None:
        return None
    note("precision: bfloat16, since this host has an NVIDIA GPU; give --dtype float32 if CPUs are to score the model")
    return "bfloat16"


def _find_stored_kind(kind: str, location: str | None, settings: Settings) -> str:
    """Return the stored kind. Raises UsageError if the location is not on an endpoint of the provider in `kind`."""
    if kind not in PROVIDERS:
        return kind
    provider = provider_of(location or "", settings)
    if provider != kind:
        raise UsageError(
            f"--kind {kind}: {location or 'no --location'} is on no endpoint with provider = {kind!r}; give its "
            f"URL, and add that line to the endpoint's table in the file that SHUFFLEBOARD_ENDPOINTS names"
        )
    return "openai"


def _describe(engine: Engine, name: str, description: Mapping[str, Any]) -> None:
    """Change the description of a registered model; its revisions stay unchanged."""
    with write_session(engine) as session:
        row = find_revision(session, name)
        changed = describe(row.model, description)
        session.flush()
        document = _document(row)
    tell(
        document | {"added": False, "updated": changed},
        f"{document['name']}{_now(changed, document) or ': is described so already'}",
    )


def _now(changed: Sequence[str], document: Mapping[str, Any]) -> str:
    return "".join(f"; {key} is now {document[key]}" for key in changed)


def _on_base(
    engine: Engine, base: str, dtype: str | None, quantisation: str | None, adapter: str, *, merged: bool | None
) -> tuple[RevisionRequest, str | None]:
    """Return the request for an adapter on a registered model, at the model's commit, and the model's digest."""
    with read_session(engine) as session:
        row = find_revision(session, base)
        if row.state != "ready" or row.adapter is not None:
            why = f"is {row.state}" if row.state != "ready" else "has an adapter itself"
            raise UsageError(f"--base {base}: {why}; name a model that is ready and has none")
        request = RevisionRequest(
            row.kind,
            row.location,
            row.revision or row.requested_revision,
            dtype or row.dtype,
            quantisation or row.quantisation,
            adapter,
            merged,
        )
        return request.checked(), row.weights_digest


def inspect_here(request: RevisionRequest, settings: Settings) -> ModelFiles | None:
    """Hash local files in this process. Return None for models that a deployment's workers have to inspect.

    With a broker these are models on the hub or on an endpoint: only workers need the endpoints' keys.
    """
    if request.kind == "external" or request.location is None:
        return None
    local = all(is_local(place) for place in (request.location, request.adapter) if place is not None)
    if not local and settings.broker_url:
        return None
    from workers.artifacts import inspect_files

    return inspect_files(request, settings)


def register_of_hub(engine: Engine, settings: Settings, reference: str) -> None:
    """Register `OWNER/NAME` or `OWNER/NAME@REVISION` as NAME, or as OWNER-NAME if another model has that name.

    Does nothing for the name of a registered model, and for a registered model of the hub.
    """
    if not is_hub_name(reference):
        return
    location, revision = split_reference(reference)
    owner, _, name = location.partition("/")
    with read_session(engine) as session:
        try:
            find_of_hub(session, reference)
        except NotFoundError:
            taken = model_named(session, name)
            if taken is not None and all(known_revision.location != location for known_revision in taken.revisions):
                name = f"{owner}-{name}"
        else:
            return
    request = RevisionRequest("huggingface", location, revision).checked()
    note(f"{reference} is not registered yet: asking the hub for it")
    files = inspect_here(request, settings)
    with write_session(engine) as session:
        row, _ = add_revision(session, name, request, {}, files)
        note(f"{location} is registered as {name}@{row.number}" + (f", commit {files.commit}" if files else ""))


def _document(row: ModelRevision) -> dict[str, Any]:
    return {
        "name": row.model.name,
        "model": row.model.name,
        "revision": row.number,
        **pick(row, ("kind", "state", "location")),
        "served_model": row.requested_revision if row.kind == "openai" else None,
        "commit": row.revision,
        **pick(row, ("dtype", "quantisation", "adapter", "adapter_commit", "adapter_merged")),
        **pick(row, ("base_digest", "adapter_digest")),
        **pick(row.model, ("family", "developer", "parameters", "licence", "released", "url")),
        **pick(row, ("weights_digest", "tokenizer_digest", "chat_template_digest", "error", "created_at")),
    }


@models.command("list")
@table_options
@json_option
def list_command() -> None:
    """List models and their revisions."""
    with read_session(engine_of(settings_of())) as session:
        query = select(ModelRevision).join(Model).order_by(Model.name, ModelRevision.number)
        rows = [_document(row) for row in session.scalars(query)]
    if print_document({"models": rows}):
        return
    headings = parse_headings("name: Model, revision, kind, state, dtype: Precision, quantisation, location")
    more = {
        name: name
        for name in (
            "family",
            "developer",
            "parameters",
            "licence",
            "released",
            "url",
            "commit",
            "adapter",
            "adapter_merged",
            "error",
        )
    }
    empty = f"no model yet; register one: {propose('models add', 'NAME', '--kind', 'KIND', '--location', 'PLACE')}"
    print_table(rows, headings, empty, more=more, drop=("quantisation", "dtype", "revision", "location"))


@models.command("show")
@click.argument("name")
@json_option
def show_command(name: str) -> None:
    """Show model NAME (its newest revision, or NAME@NUMBER).

    `twins` are other models with the same weights. `engines` lists the engines that score it on this host, on a CPU
    and on a GPU, and why a faster one is not used.
    """
    from workers.choice import choices

    settings = settings_of()
    with read_session(engine_of(settings)) as session:
        revision = find_revision(session, name)
        document = _document(revision) | {"twins": twins(session, revision)}
        engines = choices(revision, settings.home.expanduser())
    if print_document(document | {"engines": {queue: asdict(choice) for queue, choice in engines.items()}}):
        return
    for key, value in document.items():
        if key != "model":  # its name in older versions
            shown = (", ".join(value) or None) if key == "twins" else value
            click.echo(f"{key.replace('_', ' '):22} {show(shown)}")
    for queue, choice in engines.items():
        click.echo(f"{f'engine on {queue}':22} {choice}")


@models.command("rename")
@click.argument("name")
@click.argument("new_name")
@json_option
def rename_command(name: str, new_name: str) -> None:
    """Give model NAME another name.

    Pages, tables and boards show the new one. Specifications of its evaluations keep the first, so that nothing is
    asked again and seals stay valid, and the model is still found by it.
    """
    with write_session(engine_of(settings_of())) as session:
        model = find_revision(session, name).model
        before = model.name
        rename(session, model, new_name)
        document = {"model": model.name, "earlier_names": model.earlier_names or []}
    tell(document, f"{before} is now called {new_name}")


@models.command("prefetch")
@click.argument("name")
@json_option
def prefetch_command(name: str) -> None:
    """Download the files of model NAME (or NAME@NUMBER) now, so that workers of this host find them.

    Interrupted downloads are resumed. The files must have the digests that were registered.
    """
    settings = settings_of()
    with read_session(engine_of(settings)) as session:
        revision = find_revision(session, name)
        document = {"model": revision.model.name, "revision": revision.number, "commit": revision.revision}
        if revision.kind not in ("huggingface", "gguf"):
            raise UsageError(f"{name}: is of kind {revision.kind}, which has no files to download")
        if revision.state != "ready":
            raise UsageError(f"{name}: is {revision.state}; it can be downloaded once a worker has hashed its files")
        from workers.artifacts import adapter_folder, model_folder

        folder = model_folder(revision, settings.home)
        adapter_folder(revision)
    tell(document | {"folder": str(folder)}, f"{document['model']}@{document['revision']}: {folder}")
