"""One node into one step of the plan: type, version, settings, and what cannot run (imports 2.2, 6)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from steward.imports.n8n.unwrap import AI, LONGEST_TITLE, Node
from steward.model.finding import Finding, FindingLevel
from steward.model.json import JsonObject
from steward.model.plan import OnError, PlanStep, Retry, StepKind, StepSource
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.workflow.execute import EXPRESSION, encode_config
from steward.steps.workflow.step_types import NodeDefinition, StepType

LONGEST_TEXT = 512 * 1024
LONGEST_EXPRESSION = 64 * 1024
UNSUPPORTED = "unsupported"

REPLACE = {
    "slack": "a Teams step, or remove it",
    "gmail": "a Teams step, or remove it",
    "telegram": "a Teams step, or remove it",
    "emailSend": "a Teams step, or remove it",
    "discord": "a Teams step, or remove it",
    "twilio": "a Teams step, or remove it",
    "whatsApp": "a Teams step, or remove it",
    "sendGrid": "a Teams step, or remove it",
    "mailchimp": "a Teams step, or remove it",
    "extractFromFile": "a spreadsheet step",
    "convertToFile": "a spreadsheet step",
    "spreadsheetFile": "a spreadsheet step",
    "readWriteFile": "a spreadsheet step",
    "readBinaryFile": "a spreadsheet step",
    "writeBinaryFile": "a spreadsheet step",
    "googleDrive": "a spreadsheet step, or remove it",
    "airtable": "a spreadsheet step",
    "notion": "a spreadsheet step",
    "postgres": "a spreadsheet step or an HTTP request that reads",
    "mySql": "a spreadsheet step or an HTTP request that reads",
    "supabase": "an HTTP request that reads",
}
_BINARY = frozenset(
    (
        "extractFromFile",
        "convertToFile",
        "spreadsheetFile",
        "readWriteFile",
        "readBinaryFile",
        "readBinaryFiles",
        "writeBinaryFile",
        "moveBinaryData",
        "readPDF",
        "editImage",
        "compression",
        "iCal",
    )
)


def step_of(node: Node, targets: Mapping[str, str]) -> tuple[PlanStep, list[Finding]]:
    """The step a node becomes, and what was found."""
    kind = BY_TYPE.get(node.type)
    if kind is None:
        return _unsupported(node, _why(node))
    if node.version not in kind.versions:
        words = f"Version {node.version:g} of this step is not known. Export it from a version that is: "
        return _unsupported(
            node, ("node_version", words + ", ".join(f"{one:g}" for one in kind.versions) + ".")
        )
    try:
        return _known(node, kind, targets)
    except (AttributeError, TypeError, ValueError, KeyError, IndexError):
        words = "Its parameters are not of the shape the tool writes. Open it in the tool and export again."
        return _unsupported(node, ("parameter", words))


def _known(node: Node, kind: StepType, targets: Mapping[str, str]) -> tuple[PlanStep, list[Finding]]:
    parameters = _renamed(node.parameters, node, targets)
    asked = NodeDefinition(node.name, node.version, parameters, node.credentials)
    found = _Found(node)
    found.texts(parameters)
    found.unknown(kind, asked)
    found.odd(kind, asked)
    for problem in kind.check(asked):
        found.add(FindingLevel(problem.level), problem.code, problem.message)
    on_error = _on_error(node)
    step_kind = kind.kind_of(asked)
    retry = _retry(node)
    if retry is not None and step_kind in (StepKind.CHANGE, StepKind.SEND):
        words = "It is set to try again; what changes or sends is repeated here only when that is safe."
        found.add(FindingLevel.WARNING, "parameter", f"{words} Nothing to do.")
        retry = None
    if on_error is OnError.ERROR_OUTPUT and _fails_as_a_whole(kind):
        words = (
            "When it fails as a whole, its input goes on at the first output and nothing at the error output."
        )
        found.add(FindingLevel.WARNING, "parameter", f"{words} The tool does the same; check what follows.")
    needs = kind.required_connection(asked)
    if needs in ("spreadsheet", "teams"):
        found.add(
            FindingLevel.WARNING, "credential", f"It needs a {needs} connection. Bind one to this step."
        )
    if node.disabled:
        found.add(
            FindingLevel.NOTE, "disabled_step", "It is switched off: items pass it unchanged. Nothing to do."
        )
    origin = StepSource(
        source_type=node.type,
        source_version=node.version,
        needs=needs,
        target=kind.target(asked),
        on_error=on_error,
        retry=retry,
        once=node.settings.get("executeOnce") is True,
        always_output=node.settings.get("alwaysOutputData") is True,
        disabled=node.disabled,
        supported=not any(finding.level is FindingLevel.ERROR for finding in found.findings),
        inputs=kind.inputs(asked),
        ports=_ports(kind, asked, on_error),
        place=node.place,
    )
    config = encode_config(parameters)
    step = PlanStep(
        node.name, _title(kind.title(asked), node), step_kind, kind.operation(asked), config, origin
    )
    return step, found.findings


def _ports(kind: StepType, asked: NodeDefinition, on_error: OnError) -> tuple[str, ...]:
    ports = kind.ports(asked)
    if on_error is not OnError.ERROR_OUTPUT:
        return ports
    return ("out:0", "error") if kind.types == ("filter",) else (*ports, "error")


def _fails_as_a_whole(kind: StepType) -> bool:
    return not kind.per_item or kind.types in (("filter",), ("if",))


def _title(words: str, node: Node) -> str:
    title = f"{words}: {node.notes}" if node.notes else words
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…"


def _why(node: Node) -> tuple[str, str]:
    """The finding's code and words for a type that cannot run here."""
    instead = REPLACE.get(node.type)
    todo = f"Replace it by {instead}." if instead else "Remove the step."
    if node.type.startswith(AI):
        return "ai_node", f"AI steps cannot run here. {todo}"
    if node.type in _BINARY:
        return "binary", f"“{node.type}” works with files, which steps do not keep here. {todo}"
    if "." in node.type or not node.type:
        return (
            "community_node",
            f"“{node.type[:80]}” is not a step of the tool itself and cannot run here. {todo}",
        )
    return "node_type", f"A step of type “{node.type[:80]}” cannot run here. {todo}"


def _unsupported(node: Node, why: tuple[str, str]) -> tuple[PlanStep, list[Finding]]:
    origin = StepSource(
        source_type=node.type[:200] or UNSUPPORTED,
        source_version=node.version,
        on_error=_on_error(node),
        disabled=node.disabled,
        supported=False,
        place=node.place,
    )
    step = PlanStep(node.name, _title(node.name, node), StepKind.DECIDE, UNSUPPORTED, {}, origin)
    findings = [Finding(node.name, FindingLevel.ERROR, *why)]
    if node.disabled:
        words = "It is switched off: items pass it unchanged. Nothing to do."
        findings.append(Finding(node.name, FindingLevel.NOTE, "disabled_step", words))
    return step, findings


class _Found:
    """Findings of one step, each told once."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.findings: list[Finding] = []

    def add(self, level: FindingLevel, code: str, message: str) -> None:
        finding = Finding(self.node.name, level, code, message)
        if finding not in self.findings:
            self.findings.append(finding)

    def texts(self, parameters: JsonObject) -> None:
        """No text and no expression is too long; none looks like a kept expression."""
        for path, value in _leaves(parameters, ""):
            if isinstance(value, Mapping):
                words = f"The value at {path[:120]} cannot be kept. Change the names of its fields."
                self.add(FindingLevel.ERROR, "parameter", words)
            elif isinstance(value, str) and len(value) > LONGEST_TEXT:
                self.add(
                    FindingLevel.ERROR, "parameter", f"The text at {path[:120]} is over 512 KiB. Shorten it."
                )
            elif isinstance(value, str) and value.startswith("=") and len(value) > LONGEST_EXPRESSION:
                self.add(
                    FindingLevel.ERROR,
                    "parameter",
                    f"The expression at {path[:120]} is over 64 KiB. Shorten it.",
                )

    def unknown(self, kind: StepType, asked: NodeDefinition) -> None:
        """Parameters the type does not name: what they would change is not known (imports 6)."""
        for name in asked.parameters:
            if name not in kind.parameters and name not in _HARMLESS:
                words = f"Its setting “{name[:80]}” is not known here. Remove it, or do without this step."
                self.add(FindingLevel.ERROR, "parameter", words)
        given = asked.get("options")
        for name in given if kind.options is not None and isinstance(given, Mapping) else ():
            if kind.options is not None and name not in kind.options:
                words = f"Its option “{name[:80]}” is not known here. Remove it, or do without this step."
                self.add(FindingLevel.ERROR, "parameter", words)

    def odd(self, kind: StepType, asked: NodeDefinition) -> None:
        """Choices that are none of those the type has."""
        for path, allowed in kind.choices.items():
            given = asked.literal(path)
            if given not in (None, "") and given not in allowed:
                words = f"What it has for “{path}”, {str(given)[:80]!r}, is not known here. Choose again."
                self.add(FindingLevel.ERROR, "parameter", words)


# Remains of the tool's editor that change nothing.
_HARMLESS = frozenset(("notice", "options", "infoBox", "note", "notes"))


def _leaves(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if value.keys() == EXPRESSION:
            yield path, value
        for name, one in value.items():
            yield from _leaves(one, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for place, one in enumerate(value):
            yield from _leaves(one, f"{path}.{place}")
    else:
        yield path, value


def _on_error(node: Node) -> OnError:
    given = node.settings.get("onError")
    if given == "continueErrorOutput":
        return OnError.ERROR_OUTPUT
    if given == "continueRegularOutput" or (given is None and node.settings.get("continueOnFail") is True):
        return OnError.PASS_INPUT
    return OnError.STOP


def _retry(node: Node) -> Retry | None:
    if node.settings.get("retryOnFail") is not True:
        return None
    tries, pause = node.settings.get("maxTries", 3), node.settings.get("waitBetweenTries", 1000)
    tries = tries if isinstance(tries, int) else 3
    pause = pause if isinstance(pause, int) else 1000
    return Retry(min(max(tries, 2), 5), min(max(pause, 0), 5000))


def _renamed(parameters: JsonObject, node: Node, targets: Mapping[str, str]) -> JsonObject:
    """References to renamed steps follow them; those of a name given twice go to the first (imports 2.2)."""
    changed = {was: now for was, now in targets.items() if was != now}
    if not changed:
        return parameters
    pattern = re.compile("(['\"`])(" + "|".join(re.escape(was) for was in changed) + ")\\1")

    def follow(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: found[1] + changed[found[2]] + found[1], value)
        if isinstance(value, Mapping):
            return {name: follow(one) for name, one in value.items()}
        return [follow(one) for one in value] if isinstance(value, list) else value

    return {name: follow(one) for name, one in parameters.items()}
