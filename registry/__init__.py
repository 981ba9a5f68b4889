"""The domain of Shuffleboard: schema, benchmarks, variants, prompts, queue, metrics, provenance.

This package imports neither `web` nor `workers`, and never torch.
"""

import json
import re
from pathlib import Path


def _version() -> str:
    """Return this package's version: from build.json in a wheel or an image, from pyproject.toml in a checkout."""
    folder = Path(__file__).parent
    if (folder / "build.json").is_file():
        return str(json.loads((folder / "build.json").read_text(encoding="utf-8"))["version"])  # noqa: TID251 - our own
    stated = re.search(
        r'^version = "(.+)"$', (folder.parent / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert stated is not None
    return stated[1]


__version__ = _version()
