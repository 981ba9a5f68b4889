"""Pages for anyone who may read: leaderboard, models, benchmarks, evaluations, questions, queue, guide."""

from flask import Blueprint

blueprint = Blueprint("pages", __name__)
