"""Exports for analysts: results as files that other programs read, with a manifest of what was written."""

from registry.exports.selection import ExportRequest
from registry.exports.writing import FORMATS, export

__all__ = ["FORMATS", "ExportRequest", "export"]
