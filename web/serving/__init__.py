"""Responses: their session and headers, cached pages, and metrics for Prometheus."""
