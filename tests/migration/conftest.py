"""Fixtures for a schema that is newer than the databases."""

from tests.migration.next_revision import drafted, next_schema

__all__ = ["drafted", "next_schema"]
