"""The examples in the docstrings are right."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import registry.statistics

MODULES = sorted(module.name for module in pkgutil.iter_modules(registry.statistics.__path__))


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_right(name):
    assert doctest.testmod(import_module(f"registry.statistics.{name}")).failed == 0


def test_there_are_examples():
    assert sum(doctest.testmod(import_module(f"registry.statistics.{name}")).attempted for name in MODULES) > 5
