"""Finds steps that read a field which n8n outputs but which is missing here.

A store event contains little of its object, and a read of a Shopify store only the most common fields; a step
that reads another field would continue without a value. See docs/design/imports-verdict.md#missing-values.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from steward.connectors.shopify.topics import fields_of_topic
from steward.imports.n8n.field_reads import (
    SCRIPTS,
    FieldRead,
    StepReads,
    codes_of,
    passing_on,
    reads_of,
    receiving,
)
from steward.imports.n8n.unwrap import Node
from steward.model.finding import Finding, FindingLevel
from steward.model.plan import Plan, PlanStep, PlanTrigger
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.nodes.shopify import KNOWN_FIELDS, LACKING_FIELDS
from steward.steps.workflow.step_types import KnownFields, NodeDefinition

_MAX_NAMED: Final = 5
_PROPERTY = re.compile(r"""\.\s*([A-Za-z_]\w*)\b(?!\s*\()|\[\s*["']([A-Za-z_]\w*)["']\s*\]""")
_EVENT = "Take what you need from a request that reads the object by its id."
_STEP = "Read the object with an HTTP Request step and the store's credential instead."


def unknown_field_findings(plan: Plan, nodes: Iterable[Node]) -> list[Finding]:
    """Returns an error for each running step that reads fields which its source does not output here.

    The error names the fields and the source.
    """
    sources = list(_sources(plan, nodes))
    if not sources:
        return []
    readers = [_Reader(step, reads_of(step), _properties_of(step)) for step in plan.running()]
    return [
        _finding(step, source, fields, todo)
        for source, known_fields, todo in sources
        for step, fields in _lacking_reads(plan, source, known_fields, readers)
    ]


@dataclass(frozen=True, slots=True)
class _Reader:
    """A running step, its reads by name, and the properties that its script reads of any variable."""

    step: PlanStep
    reads: StepReads
    properties: tuple[str, ...]


def _properties_of(step: PlanStep) -> tuple[str, ...]:
    if step.origin is None or step.origin.source_type not in SCRIPTS:
        return ()
    matches = (match for code in codes_of(step) for match in _PROPERTY.finditer(code))
    return tuple(dict.fromkeys(match[1] or match[2] for match in matches))


def _sources(plan: Plan, nodes: Iterable[Node]) -> Iterator[tuple[str, KnownFields, str]]:
    entry = plan.entry()
    event_fields = (
        _event_fields(entry) if entry is not None and entry.kind == "event" and entry.topics else None
    )
    if entry is not None and event_fields is not None:
        yield entry.name, event_fields, _EVENT
    running = {step.name for step in plan.running()}
    for node in nodes:
        known_fields = _output_fields(node) if node.name in running else None
        if known_fields is not None:
            yield node.name, known_fields, _STEP


def _event_fields(entry: PlanTrigger) -> KnownFields | None:
    topic = entry.topics[0]
    event_fields = fields_of_topic(topic)
    is_read = not topic.endswith(("/delete", "/tags_added"))
    noun = topic.partition("/")[0].removesuffix("s") if is_read else ""
    return None if event_fields is None else {**dict.fromkeys(event_fields), **KNOWN_FIELDS.get(noun, {})}


def _output_fields(node: Node) -> KnownFields | None:
    step_type = BY_TYPE.get(node.type)
    definition = NodeDefinition(node.name, node.version, node.parameters, node.credentials)
    return None if step_type is None else step_type.known_fields(definition)


def _lacking_reads(
    plan: Plan, source: str, known_fields: KnownFields, readers: Sequence[_Reader]
) -> Iterator[tuple[PlanStep, list[str]]]:
    names = passing_on(plan, source)
    receiving_only = receiving(plan, source, joined=False, extended=False)
    extended = receiving(plan, source, joined=False) - receiving_only
    absent = LACKING_FIELDS.difference(known_fields, *(members or () for members in known_fields.values()))
    for reader in readers:
        name = reader.step.name
        reads = [
            read
            for read in reader.reads.of(names, receives=name in receiving_only | extended)
            # after other steps added fields, only reads of fields that store objects lack are certain
            if name not in extended or (read.keys and read.keys[0] in LACKING_FIELDS)
        ]
        fields = [field for read in reads if (field := _missing_field(read, known_fields))]
        if name in receiving_only:
            fields += [field for field in reader.properties if field in absent]
        if fields:
            yield reader.step, list(dict.fromkeys(fields))


def _missing_field(read: FieldRead, known_fields: KnownFields) -> str | None:
    """Returns the field that a read requests and items lack, as written in code; None if none is missing."""
    if not read.keys:
        return None
    first, *inner_keys = read.keys
    if first not in known_fields:
        return first
    members = known_fields[first]
    member = inner_keys[0] if inner_keys else read.element
    return f"{first}.{member}" if members is not None and member and member not in members else None


def _finding(step: PlanStep, source: str, fields: list[str], todo: str) -> Finding:
    named = ", ".join(f"“{name[:60]}”" for name in fields[:_MAX_NAMED])
    named += f" and {len(fields) - _MAX_NAMED} more" if len(fields) > _MAX_NAMED else ""
    message = f"It reads {named}, which the output of “{source[:80]}” has only in n8n. {todo}"
    return Finding(step.name, FindingLevel.ERROR, "parameter", message)
