"""Makes docs/templates.md out of the templates: `make docs`, or `python -m tests.templates_page`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steward.model.plan import StepKind
from steward.model.schedule import Cadence, Schedule
from steward.scheduling.words import schedule_words
from steward.templates import ALL
from steward.templates.base import Category, ConnectionNeed, ConnectionUse, Template
from tests.source import ROOT

PAGE = ROOT / "docs/templates.md"
_KINDS = {"woocommerce": "WooCommerce", "shopify": "Shopify", "teams": "channel for messages"}
_KINDS |= {"spreadsheet": "Google spreadsheet", "cloud_s3": "S3 bucket", "store": "store"}
_SHARED = {
    "sheet": "a connected spreadsheet and its tab",
    "sheet_place": "a spreadsheet and its tab",
    "teams": "a connected channel for messages (Teams, Slack)",
    "file": "a file of a connected bucket",
    "products": "tags, vendors and types of products",
}
_STARTS = {"schedule": "a schedule", "event": "store events"}


def page() -> str:
    """The whole page: a table of all templates, then each with what it needs, does and answers."""
    lines = [
        "# Templates",
        "",
        f"The {len(ALL)} automations that can be set up without building one. Made by `make docs` from the"
        " service's own records, which `GET /v1/automations/templates` answers.",
        "",
        "| Template | Category | Runs on | Changes the store |",
        "| - | - | - | - |",
    ]
    templates = sorted(ALL, key=lambda item: (list(Category).index(item.facts.category), item.facts.name))
    for template in templates:
        facts = template.facts
        changes = "yes, once approved" if facts.changes_store else "no"
        name = f"[{facts.name}](#{template.template_id})"
        lines.append(f"| {name} | {facts.category.value} | {_platforms(template)} | {changes} |")
    for template in templates:
        lines += ["", *_section(template)]
    return "\n".join(lines) + "\n"


def _section(template: Template) -> Iterator[str]:
    facts = template.facts
    yield f'<a id="{template.template_id}"></a>'
    yield ""
    yield f"## {facts.name}"
    yield ""
    yield f"{facts.description} (`{template.template_id}`)"
    yield ""
    yield f"- Runs on: {_platforms(template)}"
    if facts.connections:
        yield f"- Needs: {'; '.join(_need(connection_need) for connection_need in facts.connections)}"
    yield f"- Started by: {' or '.join(_STARTS[trigger_kind.value] for trigger_kind in facts.triggers)}"
    topics = sorted({topic for held in facts.topics.values() for topic in held})
    if topics:
        yield f"- Events: {', '.join(f'`{topic}`' for topic in topics)}"
    yield f"- Proposed schedule: {_proposed(facts.default_schedule)}"
    yield f"- Steps: {' → '.join(_step(step.title, step.kind) for step in facts.steps)}"
    for row in facts.changes:
        fields = ", ".join(field.label for field in row.fields)
        yield f"- You approve: for each {row.object} {fields}; beside it {', '.join(row.shown_beside)}"
    yield ""
    yield from _inputs(facts.inputs_schema)
    yield ""
    yield from _result(facts.result_schema, facts.example_result)


def _inputs(schema: Mapping[str, Any]) -> Iterator[str]:
    yield "| Input | What it is | Value | When it is not given |"
    yield "| - | - | - | - |"
    for name, rule in schema["properties"].items():
        whole = {**_definition(rule, schema), **rule}
        if name in schema["required"]:
            absent = "it must be given"
        else:
            absent = f"`{json.dumps(whole['default'])}`" if "default" in whole else "left out"
        yield f"| `{name}` | {rule.get('description', _limit(name))} | {_value(whole)} | {absent} |"
    for alternative in [schema.get("anyOf")]:
        if alternative:
            names = [f"`{entry}`" for item in alternative for entry in item.get("required", ())]
            yield ""
            yield f"At least one of {', '.join(names)} must be given."


def _result(schema: Mapping[str, Any], example: Mapping[str, Any]) -> Iterator[str]:
    yield f"A run answers {', '.join(f'`{name}`' for name in schema['properties'])}, such as"
    yield ""
    yield "```json"
    yield json.dumps(example, ensure_ascii=False, indent=1)
    yield "```"


def _definition(rule: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(rule.get("$ref", "")).removeprefix("#/$defs/")
    results: Mapping[str, Any] = schema["$defs"][name] if name else {}
    return results


def _limit(name: str) -> str:
    return "The most changes one run may propose" if name == "limit" else name


def _value(rule: Mapping[str, Any]) -> str:
    """What may be given, in short."""
    shared = str(rule.get("$ref", "")).removeprefix("#/$defs/")
    if shared in _SHARED:
        return _SHARED[shared]
    if "enum" in rule:
        return "one of " + ", ".join(f"`{item}`" for item in rule["enum"])
    kind = rule.get("type")
    if kind in ("integer", "number"):
        minimum, limit = rule.get("minimum", rule.get("exclusiveMinimum")), rule.get("maximum")
        words = "a whole number" if kind == "integer" else "a number"
        above = "above" if "exclusiveMinimum" in rule else "from"
        return f"{words} {above} {minimum} to {limit}" if limit is not None else words
    words = {"boolean": "true or false", "string": "text", "array": "a list", "object": "an object"}
    return words.get(str(kind), "see its schema")


def _proposed(schedule: Schedule) -> str:
    """In words, without the zone, which is the automation's."""
    if schedule.cadence is Cadence.ONCE:
        return f"once, at {schedule.time_of_day} on a day to be given"
    return schedule_words(schedule, "").partition(" (")[0].rstrip(" ,")


def _step(title: str, kind: StepKind) -> str:
    return f"**{title}**" if kind is StepKind.CHANGE else title


def _need(need: ConnectionNeed) -> str:
    """A connection beside the store, such as `2 to 10 stores to read`."""
    kind = _KINDS[need.kind]
    number = f"{need.min} to {need.max} " if need.max > 1 else "" if need.min else "if wanted "
    article = "" if number and need.max > 1 else "a "
    return f"{number}{article}{kind}{'s' if need.max > 1 else ''} to {_use(need.use)}"


def _use(use: ConnectionUse) -> str:
    return "read" if use is ConnectionUse.READ else "send to"


def _platforms(template: Template) -> str:
    names: Sequence[str] = template.facts.platforms
    return " or ".join(_KINDS[name] for name in names) or "no store of its own"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
