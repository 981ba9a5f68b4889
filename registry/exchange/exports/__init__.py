"""Exports for analysts: results as files that other programs read, with a manifest of what was written."""

from registry.exchange.exports.selection import ExportRequest
from registry.exchange.exports.writing import FORMATS, export

__all__ = ["FORMATS", "ExportRequest", "export"]
