"""Recipes: which files of a dataset on the hub make a benchmark, and how their columns become its questions."""

from registry.benchmarks.recipes.fetch import Fetched, fetch, fetch_to, shown
from registry.benchmarks.recipes.recipe import Recipe, read_recipe, recipe_named, shipped_recipes

__all__ = ["Fetched", "Recipe", "fetch", "fetch_to", "read_recipe", "recipe_named", "shipped_recipes", "shown"]
