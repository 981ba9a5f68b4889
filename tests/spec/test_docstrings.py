"""The examples in the docstrings of the metrics and statistics."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import registry.metrics
import registry.statistics

MODULES = sorted(
    f"{package.__name__}.{module.name}"
    for package in (registry.metrics, registry.statistics)
    for module in pkgutil.iter_modules(package.__path__)
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_right(name: str):
    assert doctest.testmod(import_module(name)).failed == 0


def test_there_are_examples():
    assert sum(doctest.testmod(import_module(name)).attempted for name in MODULES) > 5
