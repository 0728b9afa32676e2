"""Traces which steps read a missing value: an unavailable response or a removed secret.

It follows fields from step to step without running anything, as test runs do with items whose fields are
unknown (`steward/steps/workflow/test_mode.py`). See docs/design/imports-verdict.md#missing-values.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from steward.imports.n8n.field_reads import codes_of
from steward.imports.n8n.graph import LOOP
from steward.imports.n8n.reshaped_fields import ANYWHERE, SCRIPTS, WHOLE, Missing, overlap, reshaped, words_in
from steward.imports.n8n.script_reads import may_read_every_field
from steward.imports.step_templates import templates_of
from steward.model.json import JsonValue
from steward.model.plan import Plan, PlanStep, StepKind
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.nodes.code import script_of
from steward.steps.workflow.execute import raw_parameters
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.marked_texts import is_fixed, parts_of
from steward.steps.workflow.expressions.message import current_item_fields
from steward.steps.workflow.expressions.paths import Path, PathRoot, read_path
from steward.steps.workflow.expressions.template import Chunk, ParameterTemplate
from steward.steps.workflow.step_types import FieldUse

_CURRENT_ITEM = (PathRoot.JSON, PathRoot.FIRST, PathRoot.LAST)
_OTHER_STEP = (PathRoot.STEP_ITEM, PathRoot.STEP_FIRST, PathRoot.STEP_LAST, PathRoot.NODE)
_INPUT_IN_SCRIPT = re.compile(r"\$input\b|\$json\b|\bitems?\b|\$items\b")
_FIELD_SETTING = re.compile(r"^(?!destination|output)(?:field|.*Field)(?:Name|s|ToSplitOut|ToAggregate|\d)?$")
# References to another step that do not read its items: its loop state, its settings, whether it ran.
_NO_ITEM = re.compile(r"\$\(\s*(['\"`])[^'\"`]*\1\s*\)\s*\??\.\s*(?:context|isExecuted|params)\b")
_JSON_KEY = re.compile(r"[\"']([\w .-]{1,120})[\"']\s*:")
_WHOLE_ITEM = re.compile(r"stringify|\$json(?!\s*[\w$.\[?])|\.json(?!\s*[\w$.\[?])")


@dataclass(slots=True)
class DataFlow:
    """The running steps of a plan, with the data that each reads and passes on."""

    plan: Plan
    steps: dict[str, PlanStep] = field(init=False)
    _disabled: dict[str, PlanStep] = field(init=False)
    _after: dict[str, list[str]] = field(init=False, default_factory=dict)
    # Caches, because many removed keys lead to the same queries.
    _templates: dict[str, list[tuple[str, ParameterTemplate]]] = field(init=False, default_factory=dict)
    _parameters: dict[str, Any] = field(init=False, default_factory=dict)
    _codes: dict[str, tuple[str, ...]] = field(init=False, default_factory=dict)
    _outputs: dict[tuple[str, Missing], dict[str, Missing]] = field(init=False, default_factory=dict)
    _names: dict[str, frozenset[str] | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = {step.name: step for step in self.plan.running()}
        self._disabled = {step.name: step for step in self.plan.steps if _is_disabled(step)}
        for edge in self.plan.edges:
            self._after.setdefault(edge.source, []).append(edge.target)

    def readers(self, source: str, missing: Missing) -> list[str]:
        """Returns the running steps that read fields missing from the output of `source`, in plan order."""
        outputs = self._passed_on(source, missing)
        arriving = self._arriving(outputs)
        return [
            step.name
            for step in self.plan.steps
            if step.name in self.steps
            and step.name != source
            and self._uses(step, arriving.get(step.name, frozenset()), outputs)
        ]

    def settings_readers(self, source: str) -> list[str]:
        """Returns the running steps that read the settings of `source`, in plan order."""
        name = re.escape(source)
        pattern = re.compile(
            rf"\$\(\s*['\"`]{name}['\"`]\s*\)\s*\??\.\s*params\b"
            rf"|\$node\s*\[\s*['\"`]{name}['\"`]\s*\]\s*\.\s*param(?:s|eter)\b"
        )
        return [
            step.name
            for step in self.plan.steps
            if step.name in self.steps and any(pattern.search(text) for text in self._codes_of(step))
        ]

    def reading_parameters(self, source: str, missing: Missing, reader: str) -> list[str]:
        """Returns the paths of a step's parameters that read fields missing from the output of `source`."""
        is_read = self.is_read(source, missing, reader)
        return [
            path
            for path, template_ in self._expressions(self.steps[reader])
            if any(isinstance(part, Chunk) and is_read(part.code) for part in template_.parts)
        ]

    def changes_on_the_way(self, source: str, missing: Missing) -> bool:
        """Returns whether a set step on the way changes the removed keys it reads, or adds text to them."""
        names = self._passed_on(source, missing).keys() & self.steps.keys() - {source}
        return any(
            self._changes(self.steps[name], self.is_read(source, missing, name))
            for name in names
            if _is_set(self.steps[name])
        )

    def _changes(self, step: PlanStep, is_read: Callable[[str], bool]) -> bool:
        for path, template_ in self._expressions(step):
            if not any(isinstance(part, Chunk) and is_read(part.code) for part in template_.parts):
                continue
            parts = parts_of(template_.text, lambda code: "" if is_read(code) else None)
            if parts is None or (field_of_set(step.config, path) and not is_fixed(parts)):
                return True
        return False

    def is_read(self, source: str, missing: Missing, reader: str) -> Callable[[str], bool]:
        """Returns a predicate for code of a step that reads fields missing from the output of `source`."""
        outputs = self._passed_on(source, missing)
        arriving = self._arriving(outputs).get(reader, frozenset())
        return lambda code: _reads_chunk(Chunk(code, read_path(code)), arriving, outputs)

    def _arriving(self, outputs: Mapping[str, Missing]) -> dict[str, Missing]:
        """Returns the missing fields of the items that each step receives."""
        arriving: dict[str, Missing] = {}
        for name, fields in outputs.items():
            for target in self._after.get(name, ()):
                arriving[target] = arriving.get(target, frozenset()) | fields
        return arriving

    def _passed_on(self, source: str, missing: Missing) -> dict[str, Missing]:
        """Returns the missing fields in the output of each step that follows `source`."""
        if (source, missing) not in self._outputs:
            self._outputs[source, missing] = self._followed(source, missing)
        return self._outputs[source, missing]

    def _followed(self, source: str, missing: Missing) -> dict[str, Missing]:
        outputs: dict[str, Missing] = {source: missing}
        pending = [source]
        while pending:
            name = pending.pop()
            for target in self._after.get(name, ()):
                step = self.steps.get(target) or self._disabled.get(target)
                if step is None:
                    continue
                fields = outputs.get(target, frozenset()) | self._output(step, outputs[name], outputs)
                if fields and fields != outputs.get(target):
                    outputs[target] = fields
                    pending.append(target)
        return outputs

    def _output(self, step: PlanStep, arriving: Missing, outputs: Mapping[str, Missing]) -> Missing:
        if _is_disabled(step):
            return arriving
        step_type = BY_TYPE.get(step.origin.source_type if step.origin is not None else "")
        if step_type is None:
            return frozenset()
        field_use = step_type.field_use_of(step)
        passed = arriving if field_use is not FieldUse.REPLACES_ITEMS else frozenset()
        if passed and step.origin is not None:
            fields = reshaped(step.origin.source_type, self._parameters_of(step), arriving)
            passed = passed if fields is None else fields
        if () in passed and (step_type.kind is not StepKind.DECIDE or _is_loop(step)):
            # Items that return to a loop do not make up its next batch.
            passed -= WHOLE
        return passed | self._set_fields(step, arriving, outputs)

    def _set_fields(self, step: PlanStep, arriving: Missing, outputs: Mapping[str, Missing]) -> Missing:
        """Returns the fields that a set step fills from missing ones."""
        if not _is_set(step):
            return frozenset()
        fields: set[tuple[str, ...]] = set()
        for path, template_ in self._expressions(step):
            before = ""
            for part in template_.parts:
                if isinstance(part, str):
                    before += part
                elif _reads_chunk(part, arriving, outputs):
                    fields.add(field_of_set(step.config, path) or _key_before(before))
        return frozenset(fields)

    def _expressions(self, step: PlanStep) -> list[tuple[str, ParameterTemplate]]:
        if step.name not in self._templates:
            self._templates[step.name] = templates_of(step)
        return self._templates[step.name]

    def _parameters_of(self, step: PlanStep) -> Any:
        if step.name not in self._parameters:
            self._parameters[step.name] = raw_parameters(step.config)
        return self._parameters[step.name]

    def _codes_of(self, step: PlanStep) -> tuple[str, ...]:
        if step.name not in self._codes:
            self._codes[step.name] = tuple(codes_of(step))
        return self._codes[step.name]

    def _names_read(self, step: PlanStep) -> frozenset[str] | None:
        """Returns the steps that a step refers to by name; None means any step."""
        if step.name not in self._names:
            source_type = step.origin.source_type if step.origin is not None else ""
            if source_type in SCRIPTS:
                names, _ = template.names_in([script_of(source_type, raw_parameters(step.config)).text])
            else:
                all_names = [template_.steps for _, template_ in self._expressions(step)]
                names = None if None in all_names else frozenset().union(*filter(None, all_names))
            self._names[step.name] = names
        return self._names[step.name]

    def _uses(self, step: PlanStep, arriving: Missing, outputs: Mapping[str, Missing]) -> bool:
        if _is_set(step):
            return False  # it only passes values on; their readers are other steps
        names = self._names_read(step)
        if not arriving and names is not None and names.isdisjoint(outputs):
            return False
        source_type = step.origin.source_type if step.origin is not None else ""
        if source_type in SCRIPTS:
            return _reads_script(script_of(source_type, raw_parameters(step.config)).text, arriving, outputs)
        if any(_reads_template(template_, arriving, outputs) for _, template_ in self._expressions(step)):
            return True
        if arriving and (_writes_whole_items(step) or _called_workflow_reads(step, arriving)):
            return True
        step_type = BY_TYPE.get(source_type)
        if step_type is None or () not in arriving or step_type.field_use_of(step) is not FieldUse.READS:
            return False
        return step.kind is not StepKind.DECIDE or _names_a_field(raw_parameters(step.config))


def field_of_set(config: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Returns the field that a path of a set step's parameters fills, or () for the whole item."""
    row: Any = config
    for part in path.split(".")[:-1]:
        if isinstance(row, Mapping):
            row = row.get(part)
        elif isinstance(row, list) and part.isdigit() and int(part) < len(row):
            row = row[int(part)]
    name = row.get("name") if isinstance(row, Mapping) and row is not config else None
    return tuple(name.split(".")) if isinstance(name, str) and name else ()


def _is_set(step: PlanStep) -> bool:
    return step.origin is not None and step.origin.source_type == "set"


def _writes_whole_items(step: PlanStep) -> bool:
    """Returns whether a step writes every field of its items to a file, a text or a row."""
    source_type = step.origin.source_type if step.origin is not None else ""
    if source_type in ("convertToFile", "spreadsheetFile"):
        return True
    if source_type == "xml" and raw_parameters(step.config).get("mode") == "jsonToxml":
        return True
    stack: list[Any] = [raw_parameters(step.config)]
    while stack:
        value = stack.pop()
        if value == "autoMapInputData":
            return True
        stack += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return False


def _called_workflow_reads(step: PlanStep, arriving: Missing) -> bool:
    """Returns whether a called workflow may read missing fields; one that is not in the file may read any."""
    if step.origin is None or step.origin.source_type != "executeWorkflow":
        return False
    parameters = raw_parameters(step.config)
    if text := parameters.get("workflowJson"):
        return words_in(str(text), arriving)
    inputs = parameters.get("workflowInputs")
    return not (isinstance(inputs, Mapping) and inputs.get("value"))


def _is_loop(step: PlanStep) -> bool:
    return step.origin is not None and step.origin.source_type == LOOP


def _names_a_field(parameters: JsonValue) -> bool:
    """Returns whether the settings name a field that the step sorts, splits, groups or joins by."""
    stack: list[JsonValue] = [parameters]
    while stack:
        value = stack.pop()
        if isinstance(value, Mapping):
            for name, member in value.items():
                if _FIELD_SETTING.search(name) and isinstance(member, str) and member:
                    return True
                stack.append(member)
        elif isinstance(value, list):
            stack += value
    return False


def _is_disabled(step: PlanStep) -> bool:
    return step.origin is not None and step.origin.disabled and step.origin.reachable


def _key_before(text: str) -> tuple[str, ...]:
    """Returns the JSON key whose value begins after this text, or () without one."""
    keys = _JSON_KEY.findall(text)
    return (keys[-1],) if keys else ()


def _reads_template(template_: ParameterTemplate, arriving: Missing, outputs: Mapping[str, Missing]) -> bool:
    return any(_reads_chunk(part, arriving, outputs) for part in template_.parts if isinstance(part, Chunk))


def _reads_chunk(chunk: Chunk, arriving: Missing, outputs: Mapping[str, Missing]) -> bool:
    if chunk.path is not None:
        return _reads_path(chunk.path, arriving, outputs)
    return _reads_code(chunk, arriving, outputs)


def _reads_path(path: Path, arriving: Missing, outputs: Mapping[str, Missing]) -> bool:
    keys = tuple(key for key in path.keys if not key.isdigit())  # without list indexes
    if path.root in _CURRENT_ITEM:
        return overlap(keys, arriving)
    return path.root in _OTHER_STEP and overlap(keys, outputs.get(path.step or "", frozenset()))


def _reads_code(chunk: Chunk, arriving: Missing, outputs: Mapping[str, Missing]) -> bool:
    code = chunk.code
    if arriving:
        fields = current_item_fields([ParameterTemplate(code, template.Lang.JS, (chunk,))])
        if fields is None:
            if () in arriving or words_in(code, arriving) or _WHOLE_ITEM.search(code):
                return True
        elif fields and any(_is_among(path, fields, code) for path in arriving):
            return True
    return _reads_named(code, outputs)


def _is_among(path: tuple[str, ...], fields: Collection[str], code: str) -> bool:
    """Returns whether code that reads these fields of an item reads the field at a path."""
    if path[:1] == (ANYWHERE,):
        return words_in(code, frozenset((path,)))
    return not path or path[0] in fields


def _reads_named(code: str, outputs: Mapping[str, Missing]) -> bool:
    return any(() in missing or words_in(code, missing) for missing in _missing_at_names(code, outputs))


def _missing_at_names(code: str, outputs: Mapping[str, Missing]) -> list[Missing]:
    names, _ = template.names_in([_NO_ITEM.sub("", code)])
    return [outputs[name] for name in names or () if outputs.get(name)]


def _reads_script(text: str, arriving: Missing, outputs: Mapping[str, Missing]) -> bool:
    if () in arriving and _INPUT_IN_SCRIPT.search(text):
        return True
    if arriving and may_read_every_field(text):
        return True
    if _missing_at_names(text, outputs) and may_read_every_field(text, of_named_steps=True):
        return True
    return words_in(text, arriving) or _reads_named(text, outputs)
