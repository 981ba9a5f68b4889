"""Fixtures for tests with the real model."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def smollm2_home(clean_environment: Path, put_smollm2: Callable[[Path], None]) -> Path:
    """Return the test's data directory, with the converted model in it."""
    put_smollm2(clean_environment)
    return clean_environment
