"""Prints what pyproject.toml asks for, a line each: `python requirements.py [EXTRA ...]`."""

# ruff: noqa: INP001 - a script beside the Dockerfile, no package

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
lines = list(project["dependencies"])
for extra in sys.argv[1:]:
    lines += project["optional-dependencies"][extra]
sys.stdout.write("\n".join(lines) + "\n")
