"""The recipes of CONTRIBUTING.md work: each is carried out in a copy of the repository and checked."""

from pathlib import Path

import pytest

from tests.recipes import Recipe, carry_out, copy_repository, recipes

RECIPES = {recipe.title: recipe for recipe in recipes()}
# How many files a recipe may touch, its test included.
MAX_FILES = {"Add a template": 2, "Add an n8n node of a service": 2}


def test_there_is_a_recipe_for_each_kind_of_addition() -> None:
    """What people add most often is described."""
    assert set(RECIPES) == {
        "Add a template",
        "Add a message connector",
        "Add a service that workflows call",
        "Add an n8n node of a service",
        "Add an n8n node type",
        "Add a Shopify Flow action",
        "Add an endpoint",
        "Add a setting",
        "Add a metric or log action",
        "Add a migration",
        "Add a web screen",
    }


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_recipe_checks_its_result_and_touches_few_files(recipe: Recipe) -> None:
    """Nobody has to look for further places."""
    assert any(block.language == "sh" for block in recipe.blocks), "the recipe runs no check"
    assert len(recipe.files) <= MAX_FILES.get(recipe.title, 5)


def test_the_recipes_work_as_they_are_written(tmp_path: Path) -> None:
    """Their files are made, one recipe after the other, and all their commands succeed."""
    copy_repository(tmp_path)
    carry_out([*RECIPES.values()], tmp_path)
