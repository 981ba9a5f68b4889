"""Models and their revisions: registration, search, and identity."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from registry.db import one_at_a_time
from registry.digests import sha256_text
from registry.errors import ModelError, UsageError
from registry.lookups import first_name, model_named
from registry.names import check_day, check_name, split_reference
from registry.revisions.endpoints import canonical_url, find_endpoint, load_endpoints
from registry.settings import get_settings
from registry.tables import MODEL_KINDS, Model, ModelRevision

DTYPES: Final = ("float32", "bfloat16", "float16")
QUANTISATIONS: Final = ("int8-weight-only",)
_REVISION: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,126}[A-Za-z0-9_])?")
_SERVED_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:/@+-]{0,198}[A-Za-z0-9])?")
_MAX_EXTERNAL_REVISION: Final = 200
"""The most characters of an external model's revision, which is free text."""
PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


def check_revision(kind: str, revision: str) -> str:
    """Return the revision if it is valid for a model of this kind, for every interface that registers models.

    On the hub it is a branch, a tag or a commit, on an endpoint the model's name there: never a path. Raises UsageError
    if it is invalid.
    """
    shown = f"revision {revision[:100]!r}"
    if kind == "external":
        if len(revision) > _MAX_EXTERNAL_REVISION or not revision.isprintable():
            raise UsageError(f"{shown}: give up to {_MAX_EXTERNAL_REVISION} printable characters")
        return revision
    pattern = _SERVED_NAME if kind == "openai" else _REVISION
    if not pattern.fullmatch(revision) or ".." in revision or (kind != "openai" and "//" in revision):
        if kind == "openai":
            raise UsageError(f"{shown} on an endpoint: give its name there, of up to 200 letters, digits and ._:/@+-")
        raise UsageError(f"{shown}: give a branch, a tag or a commit, such as main")
    return revision


@dataclass(frozen=True)
class RevisionRequest:
    """A user's description of a model revision; the digests come from the files.

    revision: for kind openai the model's name on its server. key_reference: the expected endpoint of a location of kind
    openai; the location alone decides, so it is checked and not stored. adapter: a folder, or a name on the hub with
    `@REVISION`; merged: whether to add it to the weights, None without an adapter.
    """

    kind: str
    location: str | None = None
    revision: str | None = None
    dtype: str | None = None
    quantisation: str | None = None
    adapter: str | None = None
    merged: bool | None = None
    key_reference: str | None = field(default=None, compare=False)

    def checked(self) -> "RevisionRequest":
        """Return this request with defaults filled in.

        Raises UsageError for a value that no engine knows, ModelError for files that are missing or unsafe.
        """
        if self.kind not in MODEL_KINDS:
            raise UsageError(f"model kind {self.kind!r}: use one of {', '.join(MODEL_KINDS)}")
        if self.revision:
            check_revision(self.kind, self.revision)
        if self.kind != "openai" and self.key_reference is not None:
            raise UsageError(f"only models of kind openai have a key; leave it out for kind {self.kind}")
        if self.merged is not None and self.adapter is None:
            raise UsageError("only an adapter can be merged; name it: --adapter")
        if self.adapter is not None and self.kind not in ("huggingface", "openai"):
            raise UsageError(
                f"an adapter needs a base of kind huggingface, whose modules it names; kind {self.kind} has none"
            )
        if self.kind == "external":
            return RevisionRequest("external", self.location, self.revision, self.dtype, self.quantisation)
        if self.kind == "openai":
            return self._check_endpoint()
        if not self.location:
            raise UsageError(f"a {self.kind} model needs --location: a folder, a file or a hub name")
        dtype = self.dtype or "float32"
        if dtype not in DTYPES:
            raise UsageError(f"dtype {dtype!r}: use one of {', '.join(DTYPES)}")
        if self.quantisation not in (None, *QUANTISATIONS):
            raise UsageError(f"quantisation {self.quantisation!r}: use one of {', '.join(QUANTISATIONS)}")
        location = check_location(self.kind, self.location)
        if self.adapter is None:
            return RevisionRequest(self.kind, location, self.revision, dtype, self.quantisation)
        adapter = check_adapter(self.adapter)
        return RevisionRequest(
            self.kind, location, self.revision, dtype, self.quantisation, adapter, merged=bool(self.merged)
        )

    def _check_endpoint(self) -> "RevisionRequest":
        if not self.location:
            raise UsageError("an openai model needs --location: the URL of its server, such as https://host/v1")
        if not self.revision:
            raise UsageError("an openai model needs --revision: its name on the server")
        if self.adapter is not None:
            raise UsageError(
                "an openai model's adapter must be loaded by its server; give the name it serves: --revision"
            )
        location = canonical_url(self.location)
        find_endpoint(load_endpoints(get_settings().endpoints), location, self.key_reference)
        # The server decides the precision; the user's description of it is stored unchanged.
        return RevisionRequest(
            "openai", location, self.revision, self.dtype, self.quantisation, key_reference=self.key_reference
        )


@dataclass(frozen=True)
class ModelFiles:
    """The digests of a revision's files, with facts from the model's card and the hub.

    commit: of the hub, or None for local files. The digests of a model on an endpoint are None: its files are not
    accessible. With an adapter, weights_digest combines base_digest and adapter_digest. thinking: the settings of
    thinking that a server supports, None if it has none. licence, parameters: from the card and the weights of the
    folder; None if they lack it. developer, released: the owner of the hub's repository, and the day on which it was
    created.
    """

    weights_digest: str | None
    tokenizer_digest: str | None
    chat_template: str | None
    commit: str | None = None
    base_digest: str | None = None
    adapter_digest: str | None = None
    adapter_commit: str | None = None
    thinking: dict[str, bool] | None = None
    licence: str | None = None
    parameters: int | None = None
    developer: str | None = None
    released: str | None = None

    def record(self, revision: ModelRevision) -> None:
        """Store the digests in a revision and mark it ready.

        Facts of the card and the hub are stored with the model unless it has values already.
        """
        model = revision.model
        model.licence = model.licence or self.licence
        model.parameters = model.parameters or self.parameters
        model.developer = model.developer or self.developer
        model.released = model.released or self.released
        revision.weights_digest = self.weights_digest
        revision.tokenizer_digest = self.tokenizer_digest
        revision.chat_template = self.chat_template
        revision.thinking = self.thinking
        revision.chat_template_digest = None if self.chat_template is None else sha256_text(self.chat_template)
        revision.revision = self.commit
        revision.base_digest = self.base_digest
        revision.adapter_digest = self.adapter_digest
        revision.adapter_commit = self.adapter_commit
        revision.state = "ready"
        revision.error = None


def is_local(location: str) -> bool:
    """Return whether a location is on this machine's disk rather than on the hub."""
    return location.startswith(("/", "./", "../", "~")) or location in (".", "..") or Path(location).exists()


def check_location(kind: str, location: str) -> str:
    """Return the location in its stored form: an absolute path, or a hub name as given.

    Raises ModelError if a local folder has no weights, only pickles, no configuration or no tokenizer, and for an
    invalid GGUF file. Pickles are refused because loading one runs any code in it.
    """
    if not is_local(location):
        if kind == "gguf":
            raise ModelError(f"{location}: no such GGUF file; check the path")
        if location.count("/") != 1 or any(not part for part in location.split("/")):
            raise ModelError(f"{location}: neither a folder here nor a hub name such as organisation/model")
        return location
    path = Path(location).expanduser().resolve()
    if not path.exists():
        raise ModelError(f"{location}: no such file or folder; check the path")
    if kind == "gguf":
        _check_gguf(location, path)
    else:
        _check_folder(location, path)
    return str(path)


def _check_gguf(location: str, path: Path) -> None:
    if not path.is_file():
        raise ModelError(f"{location}: is a folder; give the .gguf file in it")
    with path.open("rb") as stream:
        magic = stream.read(4)
    if magic != b"GGUF":
        raise ModelError(f"{location}: not a GGUF file (it begins with {magic!r}); check the path")


def _check_folder(location: str, path: Path) -> None:
    if not path.is_dir():
        raise ModelError(
            f"{location}: is a file; give the folder that contains the model (for a .gguf file: --kind gguf)"
        )
    if not any(path.glob("*.safetensors")):
        _refuse_pickles(location, path, "convert them to safetensors")
        raise ModelError(f"{location}: contains no weights (*.safetensors); check the folder")
    if not (path / "config.json").is_file():
        raise ModelError(f"{location}: contains no config.json; give the folder of a transformers model")
    if not any((path / name).is_file() for name in ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")):
        raise ModelError(f"{location}: contains no tokenizer (tokenizer.json); save it next to the weights")


def _refuse_pickles(location: str, path: Path, remedy: str) -> None:
    pickles = sorted(file.name for pattern in PICKLES for file in path.glob(pattern))
    if pickles:
        raise ModelError(f"{location}: weights are a pickle ({pickles[0]}), which can run code when loaded; {remedy}")


def check_adapter(adapter: str) -> str:
    """Return the adapter in its stored form: an absolute path, or a hub name with `@REVISION` as given.

    Raises ModelError unless a local folder contains one PEFT adapter in safetensors.
    """
    if not is_local(adapter):
        name, revision = split_reference(adapter)
        if revision is not None:
            check_revision("huggingface", revision)
        if name.count("/") != 1 or any(not part for part in name.split("/")):
            raise ModelError(f"adapter {adapter}: neither a folder here nor a hub name such as organisation/adapter")
        return adapter
    path = Path(adapter).expanduser().resolve()
    if not path.is_dir():
        raise ModelError(f"adapter {adapter}: no such folder; check the path")
    if not (path / "adapter_config.json").is_file():
        inner = sorted(file.parent.name for file in path.glob("*/adapter_config.json"))
        if inner:
            raise ModelError(f"adapter {adapter}: holds several ({', '.join(inner[:5])}); name the folder of one")
        raise ModelError(f"adapter {adapter}: contains no adapter_config.json; give a folder that PEFT saved")
    if not (path / "adapter_model.safetensors").is_file():
        _refuse_pickles(f"adapter {adapter}", path, "save it with PEFT as safetensors")
        raise ModelError(f"adapter {adapter}: contains no adapter_model.safetensors; save it with PEFT again")
    return str(path)


def add_revision(
    session: Session,
    name: str,
    request: RevisionRequest,
    description: Mapping[str, Any] | None = None,
    files: ModelFiles | None = None,
) -> tuple[ModelRevision, bool]:
    """Register a revision under `name`; return it, and whether it is new.

    An identical request returns the existing revision; another request under the same name, in whatever case, becomes
    the model's next revision. Without `files` the revision waits for a worker to hash them.
    description: family, developer, parameters, licence, released (YYYY-MM-DD), url; given values replace the model's.
    """
    request = request.checked()
    one_at_a_time(session, "add model revision")
    model = model_named(session, check_name("model", name))
    if model is None:
        model = Model(name=name)
        session.add(model)
    describe(model, description or {})
    session.flush()
    for existing in model.revisions:
        if request == request_of(existing):
            if files is not None and existing.state != "ready":
                files.record(existing)
            elif existing.state == "failed":  # the problem may be fixed by now: a worker checks again
                existing.state, existing.error = "registered", None
            return existing, False
    revision = ModelRevision(
        model=model,
        number=1 + (session.scalar(select(func.max(ModelRevision.number)).filter_by(model_id=model.id)) or 0),
        kind=request.kind,
        location=request.location,
        requested_revision=request.revision,
        dtype=request.dtype,
        quantisation=request.quantisation,
        adapter=request.adapter,
        adapter_merged=request.merged,
        state="ready" if request.kind == "external" else "registered",
    )
    if files is not None:
        files.record(revision)
    session.add(revision)
    session.flush()
    return revision, True


def rename(session: Session, model: Model, name: str) -> None:
    """Rename a model. Its specifications keep the first name, and it is still found by earlier ones.

    Raises UsageError if the name belongs to another model.
    """
    one_at_a_time(session, "add model revision")
    other = model_named(session, check_name("model", name))
    if other is not None and other.id != model.id:
        owned = "is the name" if other.name.lower() == name.lower() else "was an earlier name"
        raise UsageError(f"{name!r} {owned} of model {other.name!r}; choose another name")
    if model.name != name:
        model.name, model.earlier_names = name, [*(model.earlier_names or ()), model.name]


def twins(session: Session, revision: ModelRevision) -> list[str]:
    """Return revisions of other models that have the same weights, as NAME@NUMBER."""
    if revision.weights_digest is None:
        return []
    query = (
        select(Model.name, ModelRevision.number)
        .join(ModelRevision.model)
        .where(ModelRevision.weights_digest == revision.weights_digest, Model.id != revision.model_id)
        .order_by(Model.name, ModelRevision.number)
    )
    return [f"{name}@{number}" for name, number in session.execute(query)]


def describe(model: Model, description: Mapping[str, Any]) -> list[str]:
    """Update a model with the values of a description that are not None; return the names of changed fields.

    Raises UsageError if `released` is not a day.
    """
    if (released := description.get("released")) is not None:
        check_day("released", released)
    changed = [key for key, value in description.items() if value is not None and getattr(model, key) != value]
    for key in changed:
        setattr(model, key, description[key])
    return changed


def request_of(revision: ModelRevision) -> RevisionRequest:
    """Return the request that a stored revision was registered with."""
    return RevisionRequest(
        revision.kind,
        revision.location,
        revision.requested_revision,
        revision.dtype,
        revision.quantisation,
        revision.adapter,
        revision.adapter_merged,
    )


def model_identity(revision: ModelRevision) -> dict[str, Any]:
    """Return a revision's identity for specifications: content, never a path or a database id.

    A model on an endpoint has no accessible content, so its address and its name there identify it.
    """
    adapter = {
        "base": revision.base_digest,
        "digest": revision.adapter_digest,
        "merged": revision.adapter_merged,
    }
    identity: dict[str, Any] = {
        "name": first_name(revision.model),
        "kind": revision.kind,
        "weights_digest": revision.weights_digest,
        "tokenizer_digest": revision.tokenizer_digest,
        "chat_template_digest": revision.chat_template_digest,
        "dtype": revision.dtype,
        "quantisation": revision.quantisation,
        "adapter": adapter if any(value is not None for value in adapter.values()) else None,
    }
    if revision.kind in ("external", "openai"):
        identity["revision"] = revision.requested_revision
    if revision.kind == "openai":  # without digests, only its address distinguishes it from another
        identity["endpoint"] = revision.location
    return identity
