"""Model files: found, hashed and, for GGUF, converted once. Only a worker touches them."""

import json
import tempfile
from pathlib import Path
from typing import Any, Final

from registry.digests import sha256_file, sha256_text, specification_digest
from registry.errors import ModelError
from registry.files.hub import Source, cached_folder, download
from registry.revisions.store import ModelFiles, RevisionRequest, check_location
from registry.settings import Settings, get_settings
from registry.tables import ModelRevision

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
CONVERSION_VERSION: Final = 1


def inspect_files(request: RevisionRequest, settings: Settings | None = None) -> ModelFiles:
    """Hashes the files that a checked request names; downloads them first where it names a hub model.

    A model on an endpoint has no files that could be hashed: its server is asked whether it has it.
    Raises ModelError when files are missing or unsafe, or an endpoint does not serve the model.
    """
    assert request.location is not None
    if request.kind == "openai":
        from workers.endpoint import inspect_endpoint

        return inspect_endpoint(request, settings or get_settings())
    if request.kind == "gguf":
        return _gguf_files(Path(request.location))
    folder, commit = resolve_folder(request.location, request.revision)
    return _folder_files(folder, commit)


def resolve_folder(location: str, revision: str | None, *, nested: bool = False) -> tuple[Path, str | None]:
    """The local folder of a Hugging Face model and its hub commit; downloads it where `location` is a hub name.

    nested: with what lies in folders of it, as embedders have.
    Raises ModelError or StorageError as `download` does.
    """
    # A folder is stored by its whole path, so that a hub's name never means a folder beside a worker.
    if Path(location).is_absolute():
        return Path(check_location("huggingface", location)), None
    patterns = (*HUB_PATTERNS, *(f"*/{pattern}" for pattern in HUB_PATTERNS if nested))
    snapshot = download(Source("model", location, revision), patterns, optional=True)
    if not snapshot.files:
        raise ModelError(
            f"{location}@{snapshot.commit}: has no safetensors, configuration or tokenizer; check the name"
        )
    name, path = snapshot.files[0]
    folder = path.parents[name.count("/")]
    return Path(check_location("huggingface", str(folder))), snapshot.commit


def _digest_of_files(files: list[Path]) -> str:
    return specification_digest({file.name: sha256_file(file) for file in files})


def _folder_files(folder: Path, commit: str | None) -> ModelFiles:
    tokenizer = [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
    return ModelFiles(_weights_digest(folder), _digest_of_files(tokenizer), _chat_template(folder), commit)


def _chat_template(folder: Path) -> str | None:
    """The text of the chat template, from its own file or from the tokenizer's configuration."""
    own = folder / "chat_template.jinja"
    if own.is_file():
        return own.read_text(encoding="utf-8")
    configuration = folder / "tokenizer_config.json"
    if not configuration.is_file():
        return None
    try:
        template = json.loads(configuration.read_text(encoding="utf-8")).get("chat_template")
    except ValueError:
        raise ModelError(f"{configuration}: not valid JSON; save the tokenizer again") from None
    if isinstance(template, list):  # several named templates
        template = {item["name"]: item["template"] for item in template}.get("default")
    return template


def _gguf_files(path: Path) -> ModelFiles:
    """Digests of a GGUF file: the whole file for the weights, its tokenizer fields for the tokenizer."""
    fields = _gguf_fields(Path(check_location("gguf", str(path))))
    tokenizer = {key: value for key, value in fields.items() if key.startswith("tokenizer.")}
    template = tokenizer.pop("tokenizer.chat_template", None)
    text = json.dumps(tokenizer, sort_keys=True, ensure_ascii=False, default=repr)
    return ModelFiles(sha256_file(path), sha256_text(text), template)


def _gguf_fields(path: Path) -> dict[str, Any]:
    from gguf import GGUFReader

    try:
        reader = GGUFReader(path)
        return {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise ModelError(f"{path}: cannot be read as GGUF ({error}); fetch it again") from None


def model_folder(revision: ModelRevision, home: Path) -> Path:
    """The folder of safetensors to load a revision from; converts a GGUF file on first use.

    Raises ModelError when the files no longer have the digest that was registered.
    """
    assert revision.location is not None
    if revision.kind != "gguf":
        folder = _cached_folder(revision)
        if folder is None:
            folder, _ = resolve_folder(revision.location, revision.revision or revision.requested_revision)
            _check_digest(revision, _weights_digest(folder))
        return folder
    source = Path(revision.location)
    _check_digest(revision, sha256_file(Path(check_location("gguf", str(source)))))
    folder = home / "models" / f"{revision.weights_digest}-v{CONVERSION_VERSION}"
    if not folder.is_dir():
        convert_gguf(source, folder)
    return folder


def _cached_folder(revision: ModelRevision) -> Path | None:
    """Where this host has the files of a hub's commit already, which never change: the hub is not asked for them."""
    assert revision.location is not None
    if revision.revision is None or Path(revision.location).is_absolute():
        return None
    folder = cached_folder(Source("model", revision.location, revision.revision))
    if folder is None or not (folder / "config.json").is_file() or _weights_digest(folder) != revision.weights_digest:
        return None
    return folder


def _weights_digest(folder: Path) -> str:
    return _digest_of_files([folder / "config.json", *sorted(folder.glob("*.safetensors"))])


def _check_digest(revision: ModelRevision, digest: str) -> None:
    if digest != revision.weights_digest:
        raise ModelError(
            f"{revision.location}: its weights have changed since {revision.model.name} revision {revision.number} was "
            f"registered ({digest[:12]}…, not {str(revision.weights_digest)[:12]}…); register them under a new name"
        )


def convert_gguf(source: Path, folder: Path) -> None:
    """Writes a GGUF file's model, dequantised to float32, and its tokenizer as safetensors into `folder`.

    Loading GGUF dequantises each time (23 s for SmolLM2-135M); the converted folder loads in 3 s. Written next to its
    final place and moved there, so that a killed conversion leaves nothing half-made.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        target = Path(scratch) / "model"
        try:
            model: Any = AutoModelForCausalLM.from_pretrained(
                source.parent, gguf_file=source.name, dtype=torch.float32, local_files_only=True
            )
            tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name, local_files_only=True)
        except (OSError, ValueError, KeyError, NotImplementedError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(f"{source}: cannot be converted ({reason}); use a safetensors folder") from error
        # The weights are plain float32 now; save_pretrained refuses a model that still claims to be quantised.
        model.hf_quantizer = None
        model.is_quantized = False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(target)
        tokenizer.save_pretrained(target)
        try:
            target.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another worker was faster, with the same result
                raise
