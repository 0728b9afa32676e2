"""Tests docs/templates.md as `make docs` makes it: every template, input and field of its result."""

import json
import re

import pytest

from steward.templates import ALL
from steward.templates.base import Template
from tests.templates_page import page


@pytest.mark.parametrize("template", ALL, ids=lambda template: template.template_id)
def test_the_page_describes_a_template_in_full(template: Template) -> None:
    """Writes each template's name, inputs, steps, example result and changed fields as its record has them.

    See docs/guides/contributors.md#conventions.
    """
    facts = template.facts
    section = page().partition(f'<a id="{template.template_id}"></a>')[2].partition("<a id=")[0]
    assert f"## {facts.name}\n\n{facts.description}" in section
    for name in facts.inputs_schema["properties"]:  # type: ignore[union-attr]
        assert f"\n| `{name}` | " in section
    for step in facts.steps:
        assert step.title in section
    example = re.search(r"```json\n(.*?)```", section, re.S)
    assert example is not None
    assert json.loads(example[1]) == facts.example_result
    for row in facts.changes:
        assert all(change_field.label in section for change_field in row.fields)


def test_the_page_begins_with_a_row_for_each() -> None:
    """Begins with one row for each template."""
    rows = re.findall(r"^\| \[.+\]\(#(.+)\) \|", page(), re.M)
    assert sorted(rows) == sorted(template.template_id for template in ALL)
