"""A task's settings in the plan's form: unwrapped, with Liquid as stored templates."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from steward.imports.shopify_flow import conditions
from steward.imports.shopify_flow.conditions import UnreadableCondition
from steward.imports.shopify_flow.file import Task, inner
from steward.imports.shopify_flow.secrets import NO_KEY
from steward.imports.shopify_flow.tasks import FLOW
from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.execute import EXPRESSION
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.template import Lang
from steward.steps.workflow.step_types import StepProblem

_MAX_TEXT: Final = 512 * 1024
_MAX_LIQUID: Final = 64 * 1024
# Fields that stay texts even if they contain JSON.
_TEXTS: Final = frozenset(
    ("body", "message", "subject", "note", "value", "url", "path", "target", "title", "description", "text",
     "content", "reason", "blob", "query")
)  # fmt: skip
_WRAPPED: Final = {"value", "default_value"}
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?\Z")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\Z")


class TaskSettings:
    """The settings of a task: the stored `config`, and the `problems` of unreadable parts."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.config: dict[str, JsonValue] = {}
        self.problems: list[StepProblem] = []
        self._read: set[str] = set()

    def error(self, message: str, code: str = "parameter") -> None:
        """Adds a problem that prevents the step from running."""
        self.problems.append(StepProblem("error", code, message))

    def text(self, *names: str) -> str | None:
        """Returns the first of these fields that is present."""
        self._read.update(names)
        return next((_unwrapped(self.task.fields[name]) for name in names if name in self.task.fields), None)

    def unread(self) -> list[str]:
        """Returns the fields that were not read."""
        return [name for name in self.task.fields if name not in self._read]


def read_settings(task: Task, fields: Iterable[str]) -> TaskSettings:
    """Returns a task's settings; of a type without its own reader it stores only `fields`."""
    settings = TaskSettings(task)
    for name, text in task.fields.items():
        if len(text) > _MAX_TEXT:
            settings.error(f"The text at {name[:80]} is over 512 KiB. Shorten it.")
            return settings
    reader = _READERS.get(task.task) or (_fetch if task.task.startswith(f"{FLOW}fetch::") else None)
    if reader is not None:
        reader(settings)
    else:
        _store_fields(settings, frozenset(fields))
    for name in settings.unread():
        message = f"Its setting “{name[:80]}” is not known here. Remove it, or do without this step."
        settings.error(message)
    return settings


def _unwrapped(text: str) -> str:
    """Unwraps `{"value": …, "default_value": …}`; an empty value falls back to the default."""
    wrapper = inner(text)
    if isinstance(wrapper, Mapping) and wrapper.keys() == _WRAPPED:
        texts = (
            text_
            for text_ in (wrapper["value"], wrapper["default_value"])
            if isinstance(text_, str) and text_.strip()
        )
        return next(texts, "")
    return text


def with_resolved_names(config: JsonObject, paths_by_name: Mapping[str, str]) -> JsonObject:
    """Returns a stored config that reads trigger values beside an object from that object.

    Liquid texts assign the name its value first, in Shopify Flow's spelling (`High`).
    """
    return {name: _resolve_names(value, paths_by_name) for name, value in config.items()}


def _resolve_names(value: JsonValue, paths_by_name: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list | tuple):
        return [_resolve_names(member, paths_by_name) for member in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == EXPRESSION:
        assignments = _assignments(str(value["expr"]), paths_by_name)
        return template.read_liquid(assignments + str(value["expr"])).encoded() if assignments else value
    return {
        name: paths_by_name.get(str(member), member)
        if name in ("path", "value_path")
        else _resolve_names(member, paths_by_name)
        for name, member in value.items()
    }


def _assignments(text: str, paths_by_name: Mapping[str, str]) -> str:
    """Returns Liquid that assigns a value to each of the names that a text uses."""
    used = [name for name in paths_by_name if re.search(rf"\b{name}\b", text)]
    return "".join(f"{{% assign {name} = {paths_by_name[name]} | capitalize %}}" for name in used)


def _store_fields(settings: TaskSettings, fields: frozenset[str]) -> None:
    for name in settings.task.fields:
        if name not in fields:
            continue
        text = settings.text(name) or ""
        parsed = inner(text) if name not in _TEXTS else None
        if (name.endswith("_id") or name == "id") and "." in text and conditions.PATH.match(text):
            text = f"{{{{ {text} }}}}"  # older files contain a bare path
        settings.config[name] = _stored_value(settings, name, text if parsed is None else parsed)


def _stored_value(settings: TaskSettings, name: str, value: Any) -> JsonValue:
    """Returns a value with every Liquid text as a stored template."""
    if isinstance(value, str):
        return _liquid(settings, name, value)
    if isinstance(value, list):
        return [_stored_value(settings, name, member) for member in value]
    if not isinstance(value, Mapping):
        return value if value is None or isinstance(value, bool | int | float) else str(value)
    if value.keys() == EXPRESSION:
        settings.error(f"The value at {name[:80]} cannot be kept. Change the names of its fields.")
        return None
    return {str(key): _stored_value(settings, name, member) for key, member in value.items()}


def _liquid(settings: TaskSettings, name: str, text: str) -> JsonValue:
    read = template.read_liquid(text)
    if read.lang is not Lang.LIQUID:
        return text
    if NO_KEY.search(text):
        message = (
            f"It signs with a key at {name[:80]}, which is not taken from a file. Remove it or the step."
        )
        settings.error(message, "credential")
    if len(text) > _MAX_LIQUID:
        settings.error(f"The Liquid at {name[:80]} is over 64 KiB. Shorten it.")
        return None
    return read.encoded()


def _condition(settings: TaskSettings) -> None:
    try:
        settings.config["condition"] = conditions.read_condition(settings.text("condition") or "")
    except UnreadableCondition as unclear:
        settings.error(f"Its condition cannot be read. {unclear.message} Build it again in Shopify Flow.")


def _list(settings: TaskSettings) -> None:
    path = (settings.text("listpath", "list_path") or "").strip()
    path = path.removeprefix("{{").removesuffix("}}").strip()
    if not conditions.PATH.match(path):
        settings.error("It does not name the list it works on. Choose the list again in Shopify Flow.")
        return
    settings.config["list"] = path


def _foreach(settings: TaskSettings) -> None:
    _list(settings)
    path = settings.config.get("list")
    if isinstance(path, str):
        settings.config["item"] = f"{path.rpartition('.')[2]}Foreachitem"


def _code(settings: TaskSettings) -> None:
    for name in ("input", "script", "output_schema"):
        settings.config[name] = settings.text(name) or ""


def _fetch(settings: TaskSettings) -> None:
    name = settings.task.task.rpartition("::")[2]
    settings.config["object"] = name if name.endswith("s") else f"{name}s"
    query, sort = settings.text("query"), settings.text("sort", "sort_key")
    settings.config["query"] = _liquid(settings, "query", query) if query else ""
    settings.config["sort"] = sort or ""
    maximum = (settings.text("maximum", "max") or "100").strip()
    if not re.fullmatch(r"\d{1,4}", maximum) or not 1 <= int(maximum) <= 100:
        settings.error(f"It asks for “{maximum[:20]}” at most; here 1 to 100 can be read. Choose less.")
        return
    settings.config["maximum"] = int(maximum)


def _wait(settings: TaskSettings) -> None:
    until = settings.text("until")
    duration, unit = settings.text("duration", "wait_duration"), settings.text("unit", "duration_unit")
    if until is not None and duration is None and ("{{" in until or _MOMENT.match(until.strip())):
        settings.config["until"] = _liquid(settings, "until", until)
        return
    seconds = _seconds((duration or "").strip(), unit) if until is None else None
    if seconds is None:
        settings.error("How long it waits cannot be read. Set the duration again in Shopify Flow.")
        return
    settings.config["seconds"] = seconds


def _seconds(text: str, unit: str | None) -> int | None:
    """Parses a duration to seconds from ISO 8601, `3 days`, a number with its unit, or JSON of both."""
    wrapper = inner(text)
    if isinstance(wrapper, Mapping):
        text = str(wrapper.get("value", wrapper.get("duration", "")))
        unit = str(wrapper.get("unit", "")) or unit
    seconds = _iso_seconds(text)
    if seconds is not None:
        return seconds
    match = re.fullmatch(r"(\d{1,9})(?:\s*([A-Za-z]+))?", text)
    if match is None or (match[2] is not None and unit):
        return None
    size = _UNITS.get((match[2] or unit or "").strip().lower().removesuffix("s"))
    return None if size is None else int(match[1]) * size


def _iso_seconds(text: str) -> int | None:
    duration = _ISO.match(text)
    if duration is None or not any(duration.groups()):
        return None
    sizes = (604_800, 86_400, 3600, 60, 1)
    return sum(int(part[:9] or 0) * size for part, size in zip(duration.groups("0"), sizes, strict=True))


_READERS: Final[Mapping[str, Callable[[TaskSettings], None]]] = {
    f"{FLOW}condition": _condition,
    f"{FLOW}foreach": _foreach,
    f"{FLOW}count": _list,
    f"{FLOW}sum": _list,
    f"{FLOW}run_code": _code,
    f"{FLOW}wait": _wait,
}


def templates_in(config: JsonObject) -> list[str]:
    """Returns the Liquid texts of a stored config."""
    texts: list[str] = []
    stack: list[Any] = [config]
    while stack:
        current = stack.pop()
        if isinstance(current, Mapping):
            if current.keys() == EXPRESSION:
                texts.append(str(current["expr"]))
            else:
                stack += current.values()
        elif isinstance(current, list | tuple):
            stack += current
    return texts
