"""The work queue: requests for evaluations, claims of their shards, results and progress.

The database is the queue; hints through Redis only wake workers.
"""
