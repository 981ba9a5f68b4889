"""The leaderboard: its rows, how they are selected, and the facts and costs of each."""
