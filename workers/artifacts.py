"""Model files: finding, hashing and, for GGUF, converting them once. Only a worker touches them."""

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from registry.digests import sha256_file, sha256_text, specification_digest
from registry.errors import IngestError, ModelError
from registry.files.hub import Snapshot, Source, cached_folder, download
from registry.files.remembered import remember_sha256
from registry.files.toml import read_definition
from registry.lookups import is_hub_name
from registry.names import split_reference
from registry.private import close, make_folder
from registry.queue.progress import say_doing
from registry.revisions.store import ModelFiles, RevisionRequest, check_adapter, check_location, is_local, request_of
from registry.settings import Settings, get_settings
from registry.tables import ModelRevision
from registry.untrusted import decode_answer, problem_of_text
from workers.errors import EngineError
from workers.quiet import quiet_libraries
from workers.weights import check_weights, read_header

TOKENIZER_FILES: Final = (
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
)
HUB_PATTERNS: Final = ("*.safetensors", "*.json", "tokenizer.model", "*.txt", "*.jinja")
CARD: Final = "README.md"
ADAPTER_FILES: Final = ("adapter_config.json", "adapter_model.safetensors")
ADAPTER_PATTERNS: Final = (*ADAPTER_FILES, "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
CONVERSION_VERSION: Final = 1
MOST_OF_A_CARD: Final = 2**16
"""Largest number of bytes that is read from a model card."""
_FRONT_MATTER: Final = re.compile(r"\s*---\r?\n(.*?)\r?\n---", re.DOTALL)
_LICENCE: Final = re.compile(
    r"^(license|license_name):[ \t]*[\"']?([^\r\n\"'#\[\]]{1,100}?)[\"']?[ \t]*$", re.MULTILINE
)

DigestOf = Callable[[Path], str]
"""Returns the digest of a file, either a remembered one or by reading the file."""

_DIGESTS: Final = ("weights_digest", "tokenizer_digest")


def inspect_files(
    request: RevisionRequest, settings: Settings | None = None, digest_of: DigestOf = remember_sha256
) -> ModelFiles:
    """Hash the files of a checked request, after downloading a hub model's files.

    A model on an endpoint has no files to hash: its server must list it.
    Raises ModelError if files are missing or unsafe, or an endpoint does not serve the model.
    """
    assert request.location is not None
    if request.kind == "openai":
        from workers.endpoint import inspect_endpoint

        return inspect_endpoint(request, settings or get_settings())
    if request.kind == "gguf":
        return _gguf_files(Path(request.location), digest_of)
    folder, snapshot = resolve_folder(request.location, request.revision)
    _check_checkpoint(folder, request)
    check_weights(folder)
    files = _folder_files(folder, None if snapshot is None else snapshot.commit, digest_of)
    if snapshot is not None:
        files = replace(files, developer=request.location.partition("/")[0], released=snapshot.created)
    if request.adapter is None:
        return files
    return _with_adapter(files, folder, request.location, request.adapter, digest_of)


def check_files(revision: ModelRevision, settings: Settings) -> None:
    """Check that the model's files have the digests of the registered revision, reading them in full.

    Raises ModelError if a digest differs.
    """
    files = inspect_files(request_of(revision), settings, sha256_file)
    for name in _DIGESTS:
        if getattr(files, name) != getattr(revision, name):
            raise ModelError(
                f"model {revision.model.name} revision {revision.number}: the files at {revision.location} are not "
                f"those that were scored ({name.replace('_', ' ')} differs); put the right ones there"
            )


def resolve_folder(location: str, revision: str | None, *, nested: bool = False) -> tuple[Path, Snapshot | None]:
    """Return the local folder of a Hugging Face model and its snapshot on the hub, downloading a hub model.

    nested: also download files in subfolders, which embedders need.
    Raises ModelError or StorageError as `download` does.
    """
    # A local folder is stored as an absolute path, so the name of a hub model is never read as a folder.
    if Path(location).is_absolute():
        return Path(check_location("huggingface", location)), None
    patterns = (*HUB_PATTERNS, CARD, *(f"*/{pattern}" for pattern in HUB_PATTERNS if nested))
    snapshot = download(Source("model", location, revision), patterns, optional=True)
    if all(name == CARD for name, _ in snapshot.files):
        raise ModelError(
            f"{location}@{snapshot.commit}: has no safetensors, configuration or tokenizer; check the name"
        )
    name, path = snapshot.files[0]
    folder = path.parents[name.count("/")]
    return Path(check_location("huggingface", str(folder))), snapshot


def _check_checkpoint(folder: Path, request: RevisionRequest) -> None:
    """Check that quantised weights can be loaded, and that the model is not an encoder."""
    from workers.checkpoints import encoder_of, quantisation_of

    try:
        stored = quantisation_of(folder)
        encoder = encoder_of(folder)
    except EngineError as error:
        raise ModelError(str(error)) from None
    if encoder is not None:
        raise ModelError(
            f"{request.location}: models of type {encoder} are encoders, whose tokens attend to later ones, so that an "
            "answer would be scored with itself in view; add a model that writes text from left to right"
        )
    if stored is not None and request.quantisation is not None:
        raise ModelError(f"{request.location}: its weights are quantised by {stored} already; leave out --quantisation")


def resolve_adapter(adapter: str) -> tuple[Path, str | None]:
    """Return the local folder of an adapter and its hub commit, downloading one from the hub.

    Raises ModelError or StorageError as `download` does.
    """
    if Path(adapter).is_absolute():
        return Path(check_adapter(adapter)), None
    name, revision = split_reference(adapter)
    snapshot = download(Source("model", name, revision), ADAPTER_PATTERNS, optional=True)
    if not snapshot.files:
        raise ModelError(f"{adapter}: has no adapter_config.json; check the name")
    return Path(check_adapter(str(snapshot.files[0][1].parent))), snapshot.commit


def _with_adapter(base: ModelFiles, folder: Path, location: str, adapter: str, digest_of: DigestOf) -> ModelFiles:
    """Return the files of a base model together with its adapter. Raises ModelError if the adapter does not fit."""
    quiet_libraries()
    from workers.engine.adapters import AdapterFiles

    own, commit = resolve_adapter(adapter)
    check_weights(own)
    try:
        read = AdapterFiles(own)
        read.check_base(folder)
    except EngineError as error:
        raise ModelError(str(error)) from None
    if read.base is not None and not is_local(location) and is_hub_name(read.base):
        trained_on = split_reference(read.base)[0]
        if trained_on.casefold() != location.casefold():
            raise ModelError(
                f"{adapter}: was trained on {trained_on[:120]!r} and not on {location}; name that base, or, where "
                "both have the same weights, correct base_model_name_or_path in its adapter_config.json"
            )
    _check_vocabulary(adapter, own, folder)
    digest = _adapter_digest(own, digest_of)
    return replace(
        base,
        weights_digest=specification_digest({"base": base.weights_digest, "adapter": digest}),
        chat_template=_chat_template(own) or base.chat_template,
        base_digest=base.weights_digest,
        adapter_digest=digest,
        adapter_commit=commit,
    )


def _adapter_digest(folder: Path, digest_of: DigestOf = remember_sha256) -> str:
    return _digest_of_files([folder / name for name in ADAPTER_FILES], digest_of)


def _check_vocabulary(adapter: str, folder: Path, base: Path) -> None:
    """Check that every token of the adapter's tokenizer, if it has one, is in the base model's vocabulary."""
    files = (folder / "tokenizer.json", base / "tokenizer.json")
    if not all(file.is_file() for file in files):
        return
    from tokenizers import Tokenizer

    try:
        own, vocabulary = (Tokenizer.from_file(str(file)).get_vocab(with_added_tokens=True) for file in files)
    except Exception as error:  # noqa: BLE001 - what the library raises has no class of its own
        raise ModelError(f"{adapter}: its tokenizer.json cannot be read ({error}); save it again") from None
    added = sorted(token for token, place in own.items() if vocabulary.get(token) != place)
    if added:
        raise ModelError(
            f"{adapter}: its tokenizer has {len(added)} tokens that the base model's lacks or numbers "
            f"otherwise, such as {added[0]!r}. If the adapter was trained without them, remove its tokenizer.json; "
            "otherwise merge it with PEFT, save the model and add that folder"
        )


def _digest_of_files(files: list[Path], digest_of: DigestOf) -> str:
    return specification_digest({file.name: digest_of(file) for file in files})


def _folder_files(folder: Path, commit: str | None, digest_of: DigestOf) -> ModelFiles:
    tokenizer = _digest_of_files([folder / name for name in TOKENIZER_FILES if (folder / name).is_file()], digest_of)
    return ModelFiles(
        _weights_digest(folder, digest_of),
        tokenizer,
        _chat_template(folder),
        commit,
        licence=_licence(folder),
        parameters=_parameters(folder),
    )


def _licence(folder: Path) -> str | None:
    """Return the licence in the front matter of a model card, by `license_name` if that is set; None without one."""
    card = folder / CARD
    if not card.is_file():
        return None
    with card.open("rb") as stream:
        text = stream.read(MOST_OF_A_CARD).decode(errors="replace")
    matter = _FRONT_MATTER.match(text)
    named = dict(_LICENCE.findall(matter[1])) if matter else {}
    licence = named.get("license_name") or named.get("license")
    return licence if licence and licence != "other" and problem_of_text(licence) is None else None


def _parameters(folder: Path) -> int | None:
    """Return the number of parameters; None if the weights are quantised or a file's header cannot be read."""
    from workers.checkpoints import quantisation_of

    if quantisation_of(folder) is not None:
        return None
    try:
        headers = [read_header(path) for path in folder.glob("*.safetensors")]
        return sum(math.prod(tensor["shape"]) for header in headers for tensor in header.values()) or None
    except (ModelError, TypeError, KeyError):
        return None


def _chat_template(folder: Path) -> str | None:
    """Return the chat template, from its own file or from the tokenizer's configuration."""
    own, configuration = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    source = own if own.is_file() else configuration
    if not source.is_file():
        return None
    try:
        template = read_definition(own) if source == own else decode_answer(source.read_bytes()).get("chat_template")
        if isinstance(template, list):  # several named templates
            template = {item["name"]: item["template"] for item in template}.get("default")
    except IngestError as error:
        raise ModelError(f"{error}; save the tokenizer again") from None
    except (ValueError, AttributeError, KeyError, TypeError):
        raise ModelError(f"{source}: not valid JSON, or not that of a tokenizer; save the tokenizer again") from None
    if template is not None and (not isinstance(template, str) or "\0" in template):
        raise ModelError(f"{source}: its chat template is not a text; save the tokenizer again")
    return template


def _gguf_files(path: Path, digest_of: DigestOf) -> ModelFiles:
    """Return the digests of a GGUF file: the whole file for the weights, its tokenizer fields for the tokenizer."""
    fields = _gguf_fields(Path(check_location("gguf", str(path))))
    tokenizer = {key: value for key, value in fields.items() if key.startswith("tokenizer.")}
    template = tokenizer.pop("tokenizer.chat_template", None)
    text = json.dumps(tokenizer, sort_keys=True, ensure_ascii=False, default=repr)
    return ModelFiles(digest_of(path), sha256_text(text), template)


def _gguf_fields(path: Path) -> dict[str, Any]:
    import numpy as np
    from gguf import GGUFReader

    class Reader(GGUFReader):
        """A reader that slices a plain array: a slice of a memory map runs Python code, and there are thousands."""

        def _get(self, *args: Any, **options: Any) -> Any:
            plain: Any = np.asarray(self.data)
            self.data = plain
            return super()._get(*args, **options)

    try:
        reader = Reader(path)
        return {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise ModelError(f"{path}: cannot be read as GGUF ({error}); fetch it again") from None


def model_folder(revision: ModelRevision, home: Path) -> Path:
    """Return the folder of safetensors to load a revision from, converting a GGUF file on first use.

    Raises ModelError if the files no longer have the registered digest.
    """
    assert revision.location is not None
    if revision.kind != "gguf":
        folder = _cached_folder(revision)
        if folder is None:
            folder, _ = resolve_folder(revision.location, revision.revision or revision.requested_revision)
            _check_digest(revision, _weights_digest(folder))
        return folder
    source = Path(revision.location)
    _check_digest(revision, remember_sha256(Path(check_location("gguf", str(source)))))
    folder = home / "models" / f"{revision.weights_digest}-v{CONVERSION_VERSION}"
    if not folder.is_dir():
        convert_gguf(source, folder)
    return folder


def adapter_folder(revision: ModelRevision) -> Path | None:
    """Return the folder of a revision's adapter; None without one.

    Raises ModelError if the files no longer have the registered digest.
    """
    if revision.adapter is None:
        return None
    adapter = revision.adapter
    if revision.adapter_commit is not None:
        # Cached files of a commit never change, so the hub needs no request.
        name, _ = split_reference(adapter)
        adapter = f"{name}@{revision.adapter_commit}"
        cached = cached_folder(Source("model", name, revision.adapter_commit))
        if cached is not None and all((cached / file).is_file() for file in ADAPTER_FILES):
            adapter = str(cached)
    folder, _ = resolve_adapter(adapter)
    digest = _adapter_digest(folder)
    if digest != revision.adapter_digest:
        raise _weights_changed_error(revision, revision.adapter, digest, revision.adapter_digest)
    return folder


def _cached_folder(revision: ModelRevision) -> Path | None:
    """Return the folder of a hub's commit if this host has it; its files never change, so the hub needs no request."""
    assert revision.location is not None
    if revision.revision is None or Path(revision.location).is_absolute():
        return None
    folder = cached_folder(Source("model", revision.location, revision.revision))
    if folder is None or not (folder / "config.json").is_file() or _weights_digest(folder) != _own_digest(revision):
        return None
    return folder


def _weights_digest(folder: Path, digest_of: DigestOf = remember_sha256) -> str:
    return _digest_of_files([folder / "config.json", *sorted(folder.glob("*.safetensors"))], digest_of)


def _own_digest(revision: ModelRevision) -> str | None:
    """Return the digest of the files at a revision's location: of the base if there is an adapter."""
    return revision.weights_digest if revision.adapter is None else revision.base_digest


def _check_digest(revision: ModelRevision, digest: str) -> None:
    if digest != _own_digest(revision):
        raise _weights_changed_error(revision, revision.location, digest, _own_digest(revision))


def _weights_changed_error(
    revision: ModelRevision, location: str | None, digest: str, registered: str | None
) -> ModelError:
    return ModelError(
        f"{location}: its weights have changed since {revision.model.name} revision {revision.number} was registered "
        f"({digest[:12]}…, not {str(registered)[:12]}…); register them under a new name"
    )


@contextmanager
def _converting(name: str) -> Iterator[None]:
    """Report each converted tensor of a GGUF file to the waiting process, in place of the library's progress bar.

    The message begins with the count, since a narrow terminal cuts off the end.
    """
    from transformers import modeling_gguf_pytorch_utils

    library: Any = modeling_gguf_pytorch_utils  # its bar is not public
    say_doing(f"converting {name}, once")

    def count_tensors(tensors: Any, **_: Any) -> Iterator[Any]:
        for done, tensor in enumerate(tensors):
            say_doing(f"{done} of {len(tensors)} tensors converted, once ({name})")
            yield tensor

    shown = getattr(library, "tqdm", None)
    vars(library)["tqdm"] = count_tensors
    try:
        yield
    finally:
        vars(library)["tqdm"] = shown
        say_doing("")


def convert_gguf(source: Path, folder: Path) -> None:
    """Write a GGUF file's model, dequantised to float32, and its tokenizer as safetensors into `folder`.

    Loading GGUF dequantises each time (23 s for SmolLM2-135M); the converted folder loads in 3 s. The folder is written
    under a temporary name and then moved, so that a killed conversion leaves no incomplete folder.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from workers.checkpoints import dequantise

    make_folder(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        target = Path(scratch) / "model"
        try:
            with _converting(source.name):
                model: Any = AutoModelForCausalLM.from_pretrained(
                    source.parent, gguf_file=source.name, dtype=torch.float32, local_files_only=True
                )
            tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
        except (OSError, ValueError, KeyError, NotImplementedError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(f"{source}: cannot be converted ({reason}); use a safetensors folder") from error
        # save_pretrained refuses a model that still claims to be quantised.
        dequantise(model).save_pretrained(target)
        tokenizer.save_pretrained(target)
        close(target)
        try:
            target.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another worker was faster, with the same result
                raise
