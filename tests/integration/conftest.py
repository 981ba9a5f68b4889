"""The real model, converted once a session."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2_folder(smollm2_gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2-135M-Instruct as safetensors, as a worker converts it on first use."""
    from workers.artifacts import convert_gguf

    folder = tmp_path_factory.mktemp("models") / "smollm2"
    convert_gguf(smollm2_gguf, folder)
    return folder


@pytest.fixture
def smollm2_home(clean_environment: Path, smollm2_gguf: Path, smollm2_folder: Path) -> Path:
    """The test's data directory, with the converted model where a worker looks for it first."""
    from registry.digests import sha256_file
    from workers.artifacts import CONVERSION_VERSION

    models = clean_environment / "models"
    models.mkdir()
    (models / f"{sha256_file(smollm2_gguf)}-v{CONVERSION_VERSION}").symlink_to(smollm2_folder)
    return clean_environment
