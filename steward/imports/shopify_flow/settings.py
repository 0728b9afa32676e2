"""A task's settings as the plan keeps them: unwrapped, Liquid as kept templates (imports 7.1)."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from steward.imports.shopify_flow import conditions
from steward.imports.shopify_flow.conditions import Unclear
from steward.imports.shopify_flow.file import Task, inner
from steward.imports.shopify_flow.secrets import NO_KEY
from steward.imports.shopify_flow.tasks import FLOW
from steward.model.json import JsonObject, JsonValue
from steward.steps.workflow.execute import EXPRESSION
from steward.steps.workflow.expressions import template
from steward.steps.workflow.expressions.template import Lang
from steward.steps.workflow.step_types import StepProblem

LONGEST_TEXT: Final = 512 * 1024
LONGEST_LIQUID: Final = 64 * 1024
# Fields that hold a text, also when it is the JSON of something.
_TEXTS: Final = frozenset(
    ("body", "message", "subject", "note", "value", "url", "path", "target", "title", "description", "text",
     "content", "reason", "blob", "query")
)  # fmt: skip
_WRAPPED: Final = {"value", "default_value"}
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
_ISO = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?\Z")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\Z")


class Settings:
    """A task's settings read: `config` as kept, `problems` of what could not be, `unknown` fields."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.config: dict[str, JsonValue] = {}
        self.problems: list[StepProblem] = []
        self._read: set[str] = set()

    def error(self, words: str, code: str = "parameter") -> None:
        """Something that cannot run."""
        self.problems.append(StepProblem("error", code, words))

    def text(self, *names: str) -> str | None:
        """The first of the fields that is given."""
        self._read.update(names)
        return next((unwrapped(self.task.fields[name]) for name in names if name in self.task.fields), None)

    def unread(self) -> list[str]:
        """Fields nothing looked at."""
        return [name for name in self.task.fields if name not in self._read]


def read_settings(task: Task, known: Iterable[str]) -> Settings:
    """The settings of a task; `known` are the fields its type reads, where it has no reader of its own."""
    found = Settings(task)
    for name, text in task.fields.items():
        if len(text) > LONGEST_TEXT:
            found.error(f"The text at {name[:80]} is over 512 KiB. Shorten it.")
            return found
    reader = _READERS.get(task.task) or (_fetch if task.task.startswith(f"{FLOW}fetch::") else None)
    if reader is not None:
        reader(found)
    else:
        _plain(found, frozenset(known))
    for name in found.unread():
        words = f"Its setting “{name[:80]}” is not known here. Remove it, or do without this step."
        found.error(words)
    return found


def unwrapped(text: str) -> str:
    """A value out of `{"value": …, "default_value": …}`, the path behind it where that is empty."""
    found = inner(text)
    if isinstance(found, Mapping) and found.keys() == _WRAPPED:
        given = (
            one for one in (found["value"], found["default_value"]) if isinstance(one, str) and one.strip()
        )
        return next(given, "")
    return text


def with_told(config: JsonObject, told: Mapping[str, str]) -> JsonObject:
    """A kept config in which values the origin hands over beside its object are read of that object.

    In a text of Liquid the name is given its value at the start, in the origin's spelling (`High`).
    """
    return {name: _told(value, told) for name, value in config.items()}


def _told(value: JsonValue, told: Mapping[str, str]) -> JsonValue:
    if isinstance(value, list | tuple):
        return [_told(one, told) for one in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == EXPRESSION:
        text = str(value["expr"])
        used = [name for name in told if re.search(rf"\b{name}\b", text)]
        given = "".join(f"{{% assign {name} = {told[name]} | capitalize %}}" for name in used)
        return template.read_liquid(given + text).encoded() if used else value
    return {
        name: told.get(str(one), one) if name in ("path", "value_path") else _told(one, told)
        for name, one in value.items()
    }


def _plain(found: Settings, known: frozenset[str]) -> None:
    for name in found.task.fields:
        if name not in known:
            continue
        text = found.text(name) or ""
        parsed = inner(text) if name not in _TEXTS else None
        if (name.endswith("_id") or name == "id") and "." in text and conditions.PATH.match(text):
            text = f"{{{{ {text} }}}}"  # older files have a bare path
        found.config[name] = _kept(found, name, text if parsed is None else parsed)


def _kept(found: Settings, name: str, value: Any) -> JsonValue:
    """A value with every text of Liquid in it as a kept template."""
    if isinstance(value, str):
        return _liquid(found, name, value)
    if isinstance(value, list):
        return [_kept(found, name, one) for one in value]
    if not isinstance(value, Mapping):
        return value if value is None or isinstance(value, bool | int | float) else str(value)
    if value.keys() == EXPRESSION:
        found.error(f"The value at {name[:80]} cannot be kept. Change the names of its fields.")
        return None
    return {str(key): _kept(found, name, one) for key, one in value.items()}


def _liquid(found: Settings, name: str, text: str) -> JsonValue:
    read = template.read_liquid(text)
    if read.lang is not Lang.LIQUID:
        return text
    if NO_KEY.search(text):
        words = f"It signs with a key at {name[:80]}, which is not taken from a file. Remove it or the step."
        found.error(words, "credential")
    if len(text) > LONGEST_LIQUID:
        found.error(f"The Liquid at {name[:80]} is over 64 KiB. Shorten it.")
        return None
    return read.encoded()


def _condition(found: Settings) -> None:
    try:
        found.config["condition"] = conditions.read_condition(found.text("condition") or "")
    except Unclear as unclear:
        found.error(f"Its condition cannot be read. {unclear.message} Build it anew in the product.")


def _list(found: Settings) -> None:
    path = (found.text("listpath", "list_path") or "").strip()
    path = path.removeprefix("{{").removesuffix("}}").strip()
    if not conditions.PATH.match(path):
        found.error("It does not name the list it works on. Choose the list anew in the product.")
        return
    found.config["list"] = path


def _foreach(found: Settings) -> None:
    _list(found)
    path = found.config.get("list")
    if isinstance(path, str):
        found.config["item"] = f"{path.rpartition('.')[2]}Foreachitem"


def _code(found: Settings) -> None:
    for name in ("input", "script", "output_schema"):
        found.config[name] = found.text(name) or ""


def _fetch(found: Settings) -> None:
    name = found.task.task.rpartition("::")[2]
    found.config["object"] = name if name.endswith("s") else f"{name}s"
    query, sort = found.text("query"), found.text("sort")
    found.config["query"] = _liquid(found, "query", query) if query else ""
    found.config["sort"] = sort or ""
    most = (found.text("maximum") or "100").strip()
    if not re.fullmatch(r"\d{1,4}", most) or not 1 <= int(most) <= 100:
        found.error(f"It asks for “{most[:20]}” at most; here 1 to 100 can be read. Choose less.")
        return
    found.config["maximum"] = int(most)


def _wait(found: Settings) -> None:
    until = found.text("until")
    duration, unit = found.text("duration", "wait_duration"), found.text("unit", "duration_unit")
    if until is not None and duration is None and ("{{" in until or _MOMENT.match(until.strip())):
        found.config["until"] = _liquid(found, "until", until)
        return
    seconds = _seconds((duration or "").strip(), unit) if until is None else None
    if seconds is None:
        found.error("How long it waits cannot be read. Set the duration anew in the product.")
        return
    found.config["seconds"] = seconds


def _seconds(text: str, unit: str | None) -> int | None:
    """A duration: ISO 8601, `3 days`, a number beside its unit, or both as JSON."""
    given = inner(text)
    if isinstance(given, Mapping):
        text = str(given.get("value", given.get("duration", "")))
        unit = str(given.get("unit", "")) or unit
    iso = _ISO.match(text)
    if iso is not None and any(iso.groups()):
        sizes = (604_800, 86_400, 3600, 60, 1)
        return sum(int(part[:9] or 0) * size for part, size in zip(iso.groups("0"), sizes, strict=True))
    found = re.fullmatch(r"(\d{1,9})(?:\s*([A-Za-z]+))?", text)
    if found is None or (found[2] is not None and unit):
        return None
    size = _UNITS.get((found[2] or unit or "").strip().lower().removesuffix("s"))
    return None if size is None else int(found[1]) * size


_READERS: Final[Mapping[str, Callable[[Settings], None]]] = {
    f"{FLOW}condition": _condition,
    f"{FLOW}foreach": _foreach,
    f"{FLOW}count": _list,
    f"{FLOW}sum": _list,
    f"{FLOW}run_code": _code,
    f"{FLOW}wait": _wait,
}


def templates_in(config: JsonObject) -> list[str]:
    """The Liquid texts of a kept config."""
    found: list[str] = []
    open_: list[Any] = [config]
    while open_:
        here = open_.pop()
        if isinstance(here, Mapping):
            if here.keys() == EXPRESSION:
                found.append(str(here["expr"]))
            else:
                open_ += here.values()
        elif isinstance(here, list | tuple):
            open_ += here
    return found
