"""Rows and documents that pages and JSON both show."""
