"""Exports for analysts: results as files for other programs, with a manifest that lists them."""

from registry.exchange.exports.selection import ExportRequest
from registry.exchange.exports.writing import FORMATS, export

__all__ = ["FORMATS", "ExportRequest", "export"]
