"""A model's tokenizer without the model, if its files are on this machine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from registry.errors import ModelError
from registry.revisions.store import is_local
from registry.tables import ModelRevision
from workers.artifacts import CONVERSION_VERSION
from workers.quiet import quiet_libraries
from workers.tokens import encoder


def tokenizer_of(revision: ModelRevision, home: Path) -> Callable[[str], list[int]]:
    """Return a function from a prompt's text to the model's token ids.

    Raises ModelError if the files are not here, or include no tokenizer.
    """
    quiet_libraries()
    from transformers import AutoTokenizer

    folder, options = local_files(revision, home)
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **options
        )
    except (OSError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{revision.location}: its tokenizer cannot be read ({reason})") from None
    return encoder(tokenizer)


def local_files(revision: ModelRevision, home: Path) -> tuple[Path, dict[str, str]]:
    """Return the folder of a model's files on this machine, and arguments that locate them in it.

    Raises ModelError if the files are not here.
    """
    location = revision.location
    if revision.kind not in ("gguf", "huggingface") or location is None:
        raise ModelError(f"a model of kind {revision.kind} has no files that this machine knows")
    if revision.kind == "gguf":
        converted = home / "models" / f"{revision.weights_digest}-v{CONVERSION_VERSION}"
        if converted.is_dir():
            return converted, {}
        source = Path(location)
        if not source.is_file():
            raise ModelError(f"{location}: the model's file is not on this machine")
        return source.parent, {"gguf_file": source.name}
    if is_local(location):
        if not Path(location).is_dir():
            raise ModelError(f"{location}: the model's files are not on this machine")
        return Path(location), {}
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        named = revision.revision or revision.requested_revision
        return Path(snapshot_download(location, revision=named, local_files_only=True)), {}
    except (HFValidationError, LocalEntryNotFoundError, OSError):
        raise ModelError(f"{location}: the model's files are not on this machine") from None
