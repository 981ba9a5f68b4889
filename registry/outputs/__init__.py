"""Other people's outputs: one reader per format, one check, one way into the database."""

from registry.outputs.importer import ImportRequest, import_outputs

__all__ = ["ImportRequest", "import_outputs"]
