"""Requesting work, claiming it and finishing it. The database is the queue; hints on Redis only wake workers."""
