"""Statistics over metrics: intervals, ranks, tests. Pure functions of arrays; nothing here reads the database.

Nothing is exported from here, and scipy is imported where it is used: the web needs ranks on every page.
"""
