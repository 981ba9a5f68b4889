"""Answers: predictions, the scores of questions, and what is computed from them."""
