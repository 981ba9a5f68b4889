"""How requests arrive and are answered: database or replica, kept pages, turns, responses, figures for Prometheus."""
