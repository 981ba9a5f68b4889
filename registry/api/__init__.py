"""The types of the answers that the HTTP API gives."""
