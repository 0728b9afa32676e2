"""Checks shared by creation and update: of shapes first, then against the organization's records."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from steward.automations.readiness import why_unusable
from steward.automations.rules import AutomationRules
from steward.connectors import title_of
from steward.model.automation import Automation
from steward.model.connection import AutomationConnection, Connection, ConnectionState
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.refusals import NotConnected, StaleVersion, ValidationFailed
from steward.model.schedule import Cadence, Schedule
from steward.model.trigger import EventTrigger, ScheduleTrigger, Trigger, TriggerKind
from steward.scheduling.shape import NOT_BY_EVENTS, read_schedule
from steward.scheduling.zones import FIRST, NO_SUCH_ZONE, zone
from steward.templates.base import ConnectionNeed, ConnectionUse, SetupContext, Template
from steward.templates.parts.messages import accepted_kinds

PLATFORM_NAMES = {"shopify": "Shopify", "woocommerce": "WooCommerce"}
MAX_CONNECTIONS = 20
MAX_TOPICS = 8
LONGEST_TOPIC = 80
LARGEST_INPUTS = 256 * 1024
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RequestedTrigger:
    """A requested trigger: the two fields that a person can set."""

    kind: TriggerKind
    topics: tuple[str, ...] = ()


BY_SCHEDULE = RequestedTrigger(TriggerKind.SCHEDULE)


@dataclass(slots=True)
class RequestErrors:
    """The errors of a request, by the dotted path of the field."""

    errors_by_path: dict[str, list[str]] = field(default_factory=dict)

    def add(self, path: str, words: str) -> None:
        """Adds an error."""
        self.errors_by_path.setdefault(path, []).append(words)

    def merge(self, errors: Mapping[str, Sequence[str]]) -> None:
        """Adds the errors of another check."""
        for path, messages in errors.items():
            self.errors_by_path.setdefault(path, []).extend(messages)

    def touches(self, name: str) -> bool:
        """Returns whether the field, or a field inside it, has an error."""
        return any(path == name or path.startswith(f"{name}.") for path in self.errors_by_path)

    def refuse(self) -> None:
        """Raises ValidationFailed with all errors, if there are any."""
        if self.errors_by_path:
            raise ValidationFailed(errors=self.errors_by_path)


def check_inputs(errors: RequestErrors, template: Template, inputs: JsonObject) -> JsonObject:
    """Returns the inputs with their defaults, or unchanged if they are invalid."""
    size = len(_ENCODER.encode(inputs).encode("utf-8"))
    if size > LARGEST_INPUTS:
        errors.add("inputs", f"The inputs are too large: at most {LARGEST_INPUTS // 1024} KiB.")
        return inputs
    checked = template.check_inputs(inputs)
    errors.merge(checked.errors)
    return checked.inputs


def check_schedule(
    errors: RequestErrors, raw: object, *, is_event_started: bool, parsed: Schedule | None = None
) -> Schedule | None:
    """Returns the schedule, checked by its shape only; None if it is invalid. Past days are checked later.

    `parsed` is the schedule as the request handler has already parsed it from `raw`; None if it has not.
    """
    if parsed is not None:
        if is_event_started and parsed.cadence is not Cadence.MANUAL:
            errors.add("schedule.cadence", NOT_BY_EVENTS)
            return None
        return parsed
    # Without a zone, `now` is not used.
    schedule = read_schedule(raw, zone=None, now=FIRST, is_event_started=is_event_started)
    if isinstance(schedule, Schedule):
        return schedule
    errors.merge(schedule)
    return None


def check_day(errors: RequestErrors, schedule: Schedule, timezone: str, now: datetime) -> None:
    """Checks that the day of a `once` is in the future and not too far ahead."""
    tz = zone(timezone)
    if schedule.cadence is Cadence.ONCE and tz is not None:
        checked = read_schedule(schedule.to_wire(), zone=tz, now=now)
        if not isinstance(checked, Schedule):
            errors.merge(checked)


def check_timezone(errors: RequestErrors, name: str) -> None:
    """Checks that the zone database has exactly this name."""
    if zone(name) is None:
        errors.add("timezone", NO_SUCH_ZONE)


def check_trigger(errors: RequestErrors, template: Template, requested: RequestedTrigger) -> Trigger:
    """Returns the trigger, checked by its shape and the template; the store's topics are checked later."""
    if requested.kind not in template.facts.triggers:
        errors.add("trigger.kind", f"This template is not started by {_TRIGGER_WORDS[requested.kind]}.")
    if requested.kind is TriggerKind.SCHEDULE:
        if requested.topics:
            errors.add("trigger.topics", "Only a trigger of kind event has topics. Leave them out.")
        return ScheduleTrigger()
    if not 1 <= len(requested.topics) <= MAX_TOPICS:
        errors.add("trigger.topics", f"Name 1 to {MAX_TOPICS} topics.")
    if len(set(requested.topics)) != len(requested.topics):
        errors.add("trigger.topics", "Name each topic once.")
    for index, topic in enumerate(requested.topics):
        if not 1 <= len(topic) <= LONGEST_TOPIC:
            errors.add(f"trigger.topics.{index}", f"A topic has 1 to {LONGEST_TOPIC} characters.")
    return EventTrigger(requested.topics)


_TRIGGER_WORDS = {TriggerKind.SCHEDULE: "a schedule", TriggerKind.EVENT: "store events"}


def check_topics(
    errors: RequestErrors,
    template: Template,
    trigger: Trigger,
    store: Connection | None,
    *,
    rules: AutomationRules,
) -> None:
    """Checks that the template offers each topic on the store's platform and that the store can send it."""
    if not isinstance(trigger, EventTrigger) or store is None:
        return
    offered = set(template.facts.topics.get(store.kind, ())) & rules.topics_of(store)
    for topic in trigger.topics:
        if topic not in offered:
            errors.add("trigger.topics", f"{store.name} cannot start this template with {topic}.")


def check_home(errors: RequestErrors, template: Template, integration: IntegrationId | None) -> None:
    """Checks that a store is named if the template runs on one, and only then."""
    platforms = template.facts.platforms
    if platforms and integration is None:
        errors.add("integration_id", "Choose the store it runs on.")
    if not platforms and integration is not None:
        message = "This template does not run on a store. List the accounts it reads in connections."
        errors.add("integration_id", message)


def check_connection_list(
    errors: RequestErrors, template: Template, bound: Sequence[AutomationConnection]
) -> None:
    """Checks the shape of `connections`: only for templates without a store, at most 20, ids unique."""
    if template.facts.platforms:
        if bound:
            errors.add("connections", "This template runs on a store. Leave connections empty.")
        return
    if len(bound) > MAX_CONNECTIONS:
        errors.add("connections", f"List at most {MAX_CONNECTIONS} connections.")
    if len({reference.integration_id for reference in bound}) != len(bound):
        errors.add("connections", "List each connection only once.")


def check_reads(
    errors: RequestErrors,
    template: Template,
    bound: Sequence[AutomationConnection],
    connections_by_id: Mapping[IntegrationId, Connection],
) -> None:
    """Checks that the connections to read are the organization's, and of the kinds and number needed."""
    needs = [need for need in template.facts.connections if need.use is ConnectionUse.READ]
    if template.facts.platforms:
        return
    for reference in bound:
        words = _why_unreadable(reference, connections_by_id.get(reference.integration_id), needs)
        if words is not None:
            errors.add("connections", words)
    for need in needs:
        count = sum(reference.kind in accepted_kinds(need.kind) for reference in bound)
        if not need.min <= count <= need.max:
            errors.add("connections", f"List {_how_many(need)} of kind {need.kind}.")


def _why_unreadable(
    reference: AutomationConnection, connection: Connection | None, needs: Sequence[ConnectionNeed]
) -> str | None:
    """Returns why a template with these needs cannot read the connection; None when it can."""
    if connection is None:
        return f"This organization has no connection {reference.integration_id}."
    if connection.kind != reference.kind:
        return f"Connection {reference.integration_id} is of kind {connection.kind}, not {reference.kind}."
    if not any(reference.kind in accepted_kinds(need.kind) for need in needs):
        return f"This template does not read connections to {title_of(reference.kind)}."
    return None


def _how_many(need: ConnectionNeed) -> str:
    if need.min == need.max:
        return f"exactly {need.min} {'connection' if need.min == 1 else 'connections'}"
    return f"{need.min} to {need.max} connections"


def store_of(
    integration: IntegrationId | None, connections_by_id: Mapping[IntegrationId, Connection]
) -> Connection | None:
    """Returns the store an automation runs on; None if it names none, or one that does not exist."""
    return None if integration is None else connections_by_id.get(integration)


def check_store(
    errors: RequestErrors, platforms: Collection[str], store: Connection | None, *, is_named: bool
) -> None:
    """Checks that the store belongs to the organization and that its platform is supported."""
    if not is_named:
        return
    if store is None:
        errors.add("integration_id", "This organization has no such store.")
    elif store.kind not in platforms:
        needed = " or ".join(PLATFORM_NAMES.get(name, name) for name in platforms)
        errors.add("integration_id", f"{store.name} is not a {needed} store. Choose a {needed} store.")


def check_named(
    errors: RequestErrors, template: Template, inputs: JsonObject, setup: SetupContext
) -> dict[str, IntegrationId]:
    """Returns the connections that the inputs name, by path; adds their errors."""
    errors.merge(template.check_connections(inputs, setup))
    return {named.path: named.integration_id for named in template.connections_of(inputs)}


def refuse_unconnected(
    needed: Mapping[str, Sequence[IntegrationId]], connections_by_id: Mapping[IntegrationId, Connection]
) -> None:
    """Raises NotConnected if a needed connection is not connected, with an error at the path of each."""
    errors: dict[str, list[str]] = {}
    for path, ids in needed.items():
        for integration in ids:
            connection = connections_by_id.get(integration)
            words = why_unusable(connection)
            if (
                connection is not None
                and connection.state is not ConnectionState.CONNECTED
                and words is not None
            ):
                errors.setdefault(path, []).append(words)
    if errors:
        raise NotConnected(" ".join(dict.fromkeys(chain.from_iterable(errors.values()))), errors=errors)


def label_of(
    store: Connection | None,
    bound: Sequence[AutomationConnection],
    connections_by_id: Mapping[IntegrationId, Connection],
) -> str:
    """Returns the names of the connections that an automation runs on."""
    if store is not None:
        return store.name
    return ", ".join(connections_by_id[reference.integration_id].name for reference in bound)


def with_whole_numbers(value: JsonValue) -> JsonValue:
    """Returns JSON with whole numbers as ints, so that equal requests are equal."""
    if value is None or type(value) in (str, int, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list | tuple):
        return [with_whole_numbers(item) for item in value]
    if isinstance(value, Mapping):
        return {name: with_whole_numbers(item) for name, item in value.items()}
    return value


def check_version(automation: Automation, version: int | None) -> None:
    """Raises StaleVersion, with the current automation, if `version` is given and not the current one."""
    if version is not None and version != automation.version:
        raise StaleVersion(data={"occurrence": None, "automation": automation})
