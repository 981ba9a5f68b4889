"""Responses: their session and headers, pages served again, figures for Prometheus."""
