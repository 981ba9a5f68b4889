"""One sealed evaluation as an RO-Crate: a folder that another registry can read and check against the same seal."""

from registry.exchange.crates.reading import import_crate
from registry.exchange.crates.writing import export_crate

__all__ = ["export_crate", "import_crate"]
