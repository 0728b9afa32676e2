"""Converts a node to a step of the plan with a type, version and settings, and findings."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from steward.imports.n8n.field_labels import label_of, words_of
from steward.imports.n8n.unwrap import AI, MAX_TITLE, READ_AS_FIRST, SAVE_AGAIN, Node
from steward.model.connection import NO_SIGN_IN
from steward.model.finding import Finding, FindingLevel
from steward.model.json import JsonObject, JsonValue
from steward.model.plan import BOUND_KINDS, OnError, PlanStep, Retry, StepKind, StepSource
from steward.outbound.hosts import listing_of
from steward.steps.n8n.nodes import BY_TYPE
from steward.steps.n8n.nodes.store_event import EVENT_TYPE
from steward.steps.workflow.execute import EXPRESSION, encode_config
from steward.steps.workflow.step_types import NodeDefinition, StepType

_MAX_TEXT = 512 * 1024
_MAX_EXPRESSION = 64 * 1024
UNSUPPORTED = "unsupported"

# Nodes with protocols of their own; only web addresses are called, through the guarded client.
_DATABASES = frozenset(
    [
        "crateDb",
        "microsoftSql",
        "mongoDb",
        "mySql",
        "oracleDatabase",
        "postgres",
        "questDb",
        "redis",
        "snowflake",
        "timescaleDb",
    ]
)
_SERVERS = frozenset(["amqp", "ftp", "git", "kafka", "ldap", "mqtt", "rabbitmq"])
_COMMANDS = frozenset(("executeCommand", "ssh"))
_FILES_AT_WORK = frozenset(("editImage", "iCal"))
_INSTEAD_OF_SERVICE = (
    "If it calls a service on the web, call that by an HTTP Request step instead; otherwise remove the step."
)
_DIFFERENT_MINORS = frozenset(("wait",))  # an amount without a unit is hours in 1 and seconds in 1.1


def step_of(node: Node, targets: Mapping[str, str]) -> tuple[PlanStep, list[Finding]]:
    """Returns the step that a node becomes, with its findings."""
    kind = BY_TYPE.get(node.type)
    if kind is None or node.type == EVENT_TYPE:
        return _unsupported(node, _why(node))
    if not _has_major(kind.versions, node.version):
        message = _versions_differ(node, kind) or _unknown_major(kind, node.version)
        return _unsupported(node, ("node_version", message))
    try:
        return _supported(node, kind, targets)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        message = "Its settings cannot be read. Open it in n8n, save the workflow and export it again."
        return _unsupported(node, ("parameter", message))


def unfilled_output(node: Node, port: str) -> str | None:
    """Returns the error of a connection that begins at an output which only n8n fills, or None."""
    kind = BY_TYPE.get(node.type)
    if kind is None or node.disabled:
        return None
    definition = NodeDefinition(node.name, node.version, node.parameters, node.credentials)
    return kind.unfilled_outputs(definition).get(port)


def _has_major(versions: Iterable[float], version: float) -> bool:
    """Returns whether a version has the same major number as one of these."""
    return any(int(version) == int(listed) for listed in versions)


def _versions_differ(node: Node, kind: StepType) -> str | None:
    """Returns the error of an unknown version of a type whose versions differ, or None."""
    majors = {int(version) for version in (*kind.versions, *kind.refused_versions)}
    if node.version_problem is None or (len(majors) < 2 and node.type not in _DIFFERENT_MINORS):
        return None
    return f"{node.version_problem} The versions of this step differ. {SAVE_AGAIN}"


def _unknown_major(kind: StepType, version: float) -> str:
    """Returns the message about a major version whose behavior is unknown."""
    if version < min(kind.versions):
        return (
            f"Version {version:g} of this step is older than those that run here."
            " Add the step again in n8n, which gives it the present version."
        )
    return (
        f"Version {version:g} of this step is newer than {max(kind.versions):g}, the newest that runs here."
        " Replace it by other steps, or import the workflow again after an update of Steward."
    )


def _supported(node: Node, kind: StepType, targets: Mapping[str, str]) -> tuple[PlanStep, list[Finding]]:
    parameters = _renamed(node.parameters, node, targets)
    definition = NodeDefinition(node.name, node.version, parameters, node.credentials)
    step_findings = _StepFindings(node)
    step_findings.uncertain_version(kind)
    step_findings.unstorable_texts(parameters)
    step_findings.problems(kind, definition)
    on_error = _on_error(node)
    step_kind = kind.kind_of(definition)
    retry = _retry(node)
    if retry is not None and step_kind in (StepKind.CHANGE, StepKind.SEND):
        message = (
            "In n8n it tries again when it fails; here a change or send is repeated only when that is safe."
        )
        step_findings.add(FindingLevel.WARNING, "parameter", f"{message} Nothing to do.")
        retry = None
    if on_error is OnError.ERROR_OUTPUT and _fails_as_a_whole(kind):
        message = (
            "When it fails as a whole, its first output passes on its input, and its error output nothing."
        )
        step_findings.add(
            FindingLevel.WARNING, "parameter", f"{message} n8n does the same; check what follows."
        )
    needs = kind.required_connection(definition)
    if node.disabled:
        step_findings.add(
            FindingLevel.NOTE, "disabled_step", "It is switched off: items pass it unchanged. Nothing to do."
        )
    elif needs in BOUND_KINDS:
        step_findings.add(
            FindingLevel.WARNING, "credential", f"It needs a {needs} connection. Choose one for this step."
        )
    elif needs not in (None, "store"):
        message = account_words(needs, kind.account(definition))
        step_findings.add(FindingLevel.WARNING, "credential", message)
    origin = StepSource(
        source_type=node.type,
        source_version=node.version,
        needs=needs,
        target=kind.target(definition),
        account=kind.account(definition),
        on_error=on_error,
        retry=retry,
        once=node.settings.get("executeOnce") is True,
        always_output=node.settings.get("alwaysOutputData") is True,
        disabled=node.disabled,
        supported=not any(finding.level is FindingLevel.ERROR for finding in step_findings.findings),
        inputs=kind.inputs(definition),
        ports=_ports(kind, definition, on_error),
        position=node.position,
    )
    config = encode_config(kind.stored_parameters(definition))
    step = PlanStep(
        node.name, _title(kind.title(definition), node), step_kind, kind.operation(definition), config, origin
    )
    return step, step_findings.findings


_LOCALHOST = ("localhost", "127.", "[::1]", "host.docker.internal")
# kinds whose name is not meaningful to people
_SERVICES = {"http_api": "a web service", "smtp": "a mail server (SMTP)", "cloud_s3": "S3 storage"}


def account_words(needs: str, account: JsonObject | None) -> str:
    """Returns the description of the account that a person binds to the step."""
    hosts = (account or {}).get("hosts")
    if isinstance(hosts, list) and len(hosts) == 1 and (listing := listing_of(str(hosts[0]))) is not None:
        return _private_host_words(str(hosts[0]), listing, signs_in=(account or {})["sign_in"] != NO_SIGN_IN)
    host_text = f" at {', '.join(map(str, hosts))[:200]}" if isinstance(hosts, list) and hosts else ""
    service = _SERVICES.get(needs) or needs.replace("_", " ").title()
    return (
        f"It signs in{host_text} with an account of {service}."
        " Connect the account, and choose it for this step."
    )


def _private_host_words(host: str, listing: str, *, signs_in: bool) -> str:
    """Returns what to do about a step that calls a host which the operator has to list."""
    begins = "It signs in at" if signs_in else "It calls"
    plain = " Over http others can read its key." if signs_in and host.startswith("http:") else ""
    name = listing.rpartition(":")[0]
    local = f" Here, {name} is the machine that runs Steward." if name.startswith(_LOCALHOST) else ""
    return (
        f"{begins} {host[:100]}, which is called only if the operator of Steward lists {listing[:100]} in "
        "STEWARD_ALLOW_PRIVATE_HOSTS. Ask them to list it, then connect this address as an HTTP API and "
        f"choose it for this step.{local}{plain}"
    )


def _ports(kind: StepType, definition: NodeDefinition, on_error: OnError) -> tuple[str, ...]:
    ports = kind.ports(definition)
    if on_error is not OnError.ERROR_OUTPUT:
        return ports
    return ("out:0", "error") if kind.types == ("filter",) else (*ports, "error")


def _fails_as_a_whole(kind: StepType) -> bool:
    return not kind.per_item or kind.types in (("filter",), ("if",), ("removeDuplicates",))


def _title(words: str, node: Node) -> str:
    title = f"{words}: {node.notes}" if node.notes else words
    return title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 1] + "…"


def _why(node: Node) -> tuple[str, str]:
    """Returns the code and message of the finding for an unsupported type."""
    todo = "Remove the step."
    if node.type.startswith(AI):
        message = (
            "AI steps cannot run here. Call the model's API by an HTTP Request step, or remove the step."
        )
        return "ai_node", message
    if node.type in _DATABASES:
        message = (
            "It calls a database by the database's own protocol, and here only web addresses are called."
        )
        return "node_type", f"{message} Use a spreadsheet step, or an HTTP Request to an API of the database."
    if node.type in _SERVERS:
        message = "It calls a server by a protocol of its own, and here only web addresses are called."
        return "node_type", f"{message} Use an HTTP Request step, or remove it."
    if node.type in _COMMANDS:
        message = "It runs a command on a computer, which is never done here. Use a code step, or remove it."
        return "node_type", message
    if node.type in _FILES_AT_WORK:
        return "binary", f"“{words_of(node.type)}” works on files of a kind that is not changed here. {todo}"
    if "." in node.type or not node.type:
        message = f"“{words_of(node.type)[:80]}” is a community node and cannot run here."
        return "community_node", f"{message} {_INSTEAD_OF_SERVICE}"
    message = f"Steps of the type “{words_of(node.type)[:80]}” cannot run here."
    return "node_type", f"{message} {_INSTEAD_OF_SERVICE}"


def _unsupported(node: Node, why: tuple[str, str]) -> tuple[PlanStep, list[Finding]]:
    origin = StepSource(
        source_type=node.type[:200] or UNSUPPORTED,
        source_version=node.version,
        on_error=_on_error(node),
        disabled=node.disabled,
        supported=False,
        position=node.position,
    )
    step = PlanStep(node.name, _title(node.name, node), StepKind.DECIDE, UNSUPPORTED, {}, origin)
    findings = [Finding(node.name, FindingLevel.ERROR, *why)]
    if node.disabled:
        message = "It is switched off: items pass it unchanged. Nothing to do."
        findings.append(Finding(node.name, FindingLevel.NOTE, "disabled_step", message))
    return step, findings


def _label(parameters: JsonObject, path: str) -> str:
    return label_of(parameters, f"parameters.{path}")


class _StepFindings:
    """The findings of one step, each only once."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._findings: dict[Finding, None] = {}

    @property
    def findings(self) -> list[Finding]:
        return list(self._findings)

    def add(self, level: FindingLevel, code: str, message: str) -> None:
        self._findings[Finding(self.node.name, level, code, message)] = None

    def uncertain_version(self, kind: StepType) -> None:
        """Adds a finding on an unlisted minor version, or on a version that the file does not contain.

        The version of a disabled step does not matter.
        """
        if self.node.disabled:
            return
        if error := _versions_differ(self.node, kind):
            self.add(FindingLevel.ERROR, "node_version", error)
        elif self.node.version_problem is not None and len(kind.versions) > 1:
            self.add(FindingLevel.WARNING, "node_version", f"{self.node.version_problem} {READ_AS_FIRST}")
        elif self.node.version not in kind.versions:
            message = (
                f"Version {self.node.version:g} is not known. It runs like the version before it;"
                " compare its result in a test run."
            )
            self.add(FindingLevel.WARNING, "node_version", message)

    def unstorable_texts(self, parameters: JsonObject) -> None:
        """Adds a finding for each text that is too long or looks like a stored expression."""
        for path, value in _leaves(parameters, ""):
            if isinstance(value, Mapping):
                message = f"{_label(parameters, path)} cannot be stored. Change the names of its fields."
                self.add(FindingLevel.ERROR, "parameter", message)
            elif isinstance(value, str) and len(value) > _MAX_TEXT:
                self.add(
                    FindingLevel.ERROR,
                    "parameter",
                    f"{_label(parameters, path)} is over 512 KiB. Shorten it.",
                )
            elif isinstance(value, str) and value.startswith("=") and len(value) > _MAX_EXPRESSION:
                self.add(
                    FindingLevel.ERROR,
                    "parameter",
                    f"The expression in {_label(parameters, path).lower()} is over 64 KiB. Shorten it.",
                )

    def problems(self, kind: StepType, definition: NodeDefinition) -> None:
        """Adds the step's problems; if its operation is unsupported, only that one."""
        if not self.unknown_choices(kind, definition):
            return
        problems = list(kind.check(definition))
        operations = [problem for problem in problems if problem.is_operation]
        if not operations:
            self.unknown_parameters(kind, definition)
            self.parameters_of_other_versions(kind, definition)
            self.unknown_options(kind, definition)
        for problem in operations or problems:
            self.add(FindingLevel(problem.level), problem.code, problem.message)

    def unknown_parameters(self, kind: StepType, definition: NodeDefinition) -> None:
        """Adds a finding for each parameter that the type does not know.

        A parameter that n8n has is an error. One that n8n ignores too is a note, or a warning if the step
        calls a service, because the author may have meant to send its value.
        """
        is_complete = kind.knows_all_parameters and definition.version in kind.versions
        is_local = kind.kind_of(definition) in (StepKind.DECIDE, StepKind.WAIT)
        for name, value in definition.parameters.items():
            if name in kind.parameters or _is_harmless(name) or value in ({}, []):
                continue
            setting = words_of(name)[:80]
            if is_complete:
                message = f"This step of n8n has no setting “{setting}”; it is ignored here as there."
                if is_local:
                    self.add(FindingLevel.NOTE, "parameter", f"{message} Nothing to do.")
                else:
                    todo = (
                        "If this setting matters, find it in the step in n8n, set it there and export the "
                        "workflow again."
                    )
                    self.add(FindingLevel.WARNING, "parameter", f"{message} {todo}")
            else:
                message = f"Its setting “{setting}” does not run here. Remove the setting or the step."
                self.add(FindingLevel.ERROR, "parameter", message)

    def unknown_options(self, kind: StepType, definition: NodeDefinition) -> None:
        """Adds an error for each option that the type does not know."""
        options = definition.get("options")
        for name in options if kind.options is not None and isinstance(options, Mapping) else ():
            if kind.options is not None and name not in kind.options:
                message = (
                    f"Its option “{words_of(name)[:80]}” does not run here. Remove the option or the step."
                )
                self.add(FindingLevel.ERROR, "parameter", message)

    def parameters_of_other_versions(self, kind: StepType, definition: NodeDefinition) -> None:
        """Adds a finding on parameters that the step's version does not read, which n8n ignores."""
        ignored = [
            words_of(name)[:80]
            for name, (first, end) in kind.version_parameters.items()
            if not first <= definition.version < end
            and _is_set(definition.parameters.get(name), kind.version_defaults.get(name))
        ]
        if ignored and self.node.version_problem is None:
            names = ", ".join(f"“{name}”" for name in ignored)
            message = (
                f"Its version of the step does not read {names}: n8n ignores that, and so does a run here."
            )
            todo = "Set the step up again in n8n, and export the workflow again."
            self.add(FindingLevel.WARNING, "parameter", f"{message} {todo}")

    def unknown_choices(self, kind: StepType, definition: NodeDefinition) -> bool:
        """Adds an error for each unsupported choice; returns whether the operation is supported."""
        for path, allowed in kind.choices.items():
            choice = definition.literal(path)
            if choice not in (None, "") and choice not in allowed:
                label = words_of(path.rpartition(".")[2])
                message = f"“{str(choice)[:80]}” as its “{label}” does not run here. Choose another one."
                self.add(FindingLevel.ERROR, "parameter", message)
                if path in ("operation", "resource"):
                    return False
        return True


def _is_set(value: JsonValue, default: JsonValue) -> bool:
    """Returns whether a parameter has another effect than if it were missing."""
    return value is not False and value not in (None, "", {}, []) and value != default


# parameters of n8n's editor without any effect
_HARMLESS = frozenset(("options", "infoBox", "note", "notes"))
_HARMLESS_END = re.compile(r"(?:notice|warning|callout|infobox)\Z", re.IGNORECASE)


def _is_harmless(name: str) -> bool:
    """Returns whether a parameter only concerns the editor, such as a notice."""
    return name in _HARMLESS or _HARMLESS_END.search(name) is not None


def _leaves(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if value.keys() == EXPRESSION:
            yield path, value
        for name, member in value.items():
            yield from _leaves(member, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _leaves(member, f"{path}.{index}")
    else:
        yield path, value


def _on_error(node: Node) -> OnError:
    on_error = node.settings.get("onError")
    if on_error == "continueErrorOutput":
        return OnError.ERROR_OUTPUT
    if on_error == "continueRegularOutput" or (
        on_error is None and node.settings.get("continueOnFail") is True
    ):
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
    """Returns the parameters with references updated to renamed steps.

    References to a name that several nodes have lead to the first of them.
    """
    changed = {old_name: new_name for old_name, new_name in targets.items() if old_name != new_name}
    if not changed:
        return parameters
    pattern = re.compile("(['\"`])(" + "|".join(re.escape(old_name) for old_name in changed) + ")\\1")

    def follow(value: Any) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda match: match[1] + changed[match[2]] + match[1], value)
        if isinstance(value, Mapping):
            return {name: follow(member) for name, member in value.items()}
        return [follow(member) for member in value] if isinstance(value, list) else value

    return {name: follow(member) for name, member in parameters.items()}
