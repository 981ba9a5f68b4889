"""Statistics over metrics: intervals, rank intervals, tests. Pure functions of arrays; nothing reads the database."""
