"""Recipes: which files of a dataset on the hub make a benchmark, and how their columns become its questions."""

from registry.benchmarks.recipes.fetch import Fetched, fetch, fetch_to, sample_rows
from registry.benchmarks.recipes.recipe import Recipe, load_shipped_recipes, read_recipe, recipe_named

__all__ = [
    "Fetched",
    "Recipe",
    "fetch",
    "fetch_to",
    "load_shipped_recipes",
    "read_recipe",
    "recipe_named",
    "sample_rows",
]
