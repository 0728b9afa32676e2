"""Liquid of Shopify Flow, strict and limited, with Shopify Flow's filters."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, TextIO

from liquid import BoundTemplate, Environment, RenderContext, Undefined
from liquid.builtin.expressions import logical
from liquid.builtin.output import Output, OutputNode
from liquid.builtin.tags import case_tag
from liquid.builtin.tags.echo_tag import EchoNode, EchoTag
from liquid.exceptions import LiquidError, LiquidTypeError
from liquid.token import Token

from steward.sandbox.liquid_filters import as_text, dates, hashes, money, round_half_up
from steward.sandbox.protocol import MIB

_LOOPS: Final = 100_000
_DEPTH: Final = 30
_RANGE: Final = 10_000
_TEXT_BYTES: Final = MIB
# tags that load other templates
_REMOVED_TAGS: Final = ("include", "render")


class _ListMemberContext(RenderContext):
    """Resolves paths as Shopify Flow does: a member of a list is the list of its items' members."""

    def get_item(self, obj: Any, key: Any) -> Any:
        if isinstance(obj, list):
            if isinstance(key, int):
                raise LiquidTypeError("items of a list have no numbers here; use a for loop", token=None)
            return len(obj) if key == "size" else self._members(obj, key)
        if isinstance(obj, Mapping):
            return len(obj) if key == "size" and key not in obj else obj[key]
        return super().get_item(obj, key)

    def _members(self, items: list[Any], key: str) -> Any:
        if key in ("first", "last"):
            return items[0 if key == "first" else -1] if items else None
        members: list[Any] = []
        for item in items:
            try:
                value = self.get_item(item, key)
            except (KeyError, TypeError):
                continue
            members += value if isinstance(value, list) else [value]
        return members


class _LiquidTemplate(BoundTemplate):
    context_class = _ListMemberContext


def _refuse_list(value: object) -> None:
    if isinstance(value, list | tuple | Mapping | range) and not isinstance(value, Undefined):
        raise LiquidTypeError("a list or an object cannot be put out; name one of its fields", token=None)


class _Scalar(OutputNode):
    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        _refuse_list(self.expression.evaluate(context))
        return super().render_to_output(context, buffer)


class _ScalarEcho(EchoNode):
    def render_to_output(self, context: RenderContext, buffer: TextIO) -> int:
        _refuse_list(self.expression.evaluate(context))
        return super().render_to_output(context, buffer)


class _Output(Output):
    node_class = _Scalar


class _Echo(EchoTag):
    node_class = _ScalarEcho


class _LimitedEnvironment(Environment):
    """A Liquid environment with every limit set, and without files or its own clock."""

    context_depth_limit = _DEPTH
    block_nesting_limit = _DEPTH
    loop_iteration_limit = _LOOPS
    local_namespace_limit = _TEXT_BYTES
    output_stream_limit = _TEXT_BYTES
    template_class = _LiquidTemplate

    def __init__(self) -> None:
        super().__init__(undefined=Undefined, strict_filters=True, autoescape=False)
        self.moment = datetime(1970, 1, 1, tzinfo=UTC)
        self.add_tag(_Output)
        self.add_tag(_Echo)
        for name in _REMOVED_TAGS:
            self.tags.pop(name, None)
        self.filters.update(dates(lambda: self.moment) | hashes() | {"money": money, "round": round_half_up})
        for name, act in list(self.filters.items()):
            self.filters[name] = _guarded(act, _TEXT_BY_FILTER.get(name))


def _scalar_as_text(value: Any) -> Any:
    if isinstance(value, list | tuple | Mapping | range) and not isinstance(value, Undefined):
        raise LiquidTypeError(
            "a list or an object cannot be used as text; join the list or name one field", token=None
        )
    return as_text(value)


def _items_as_text(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_items_as_text(item) for item in value]
    return value if isinstance(value, range) else _scalar_as_text(value)


def _unless_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple | range) else _scalar_as_text(value)


# How text filters receive their arguments; the library would write True, None and ['a'].
_TEXT_BY_FILTER: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(
        (
            *("append", "prepend", "replace", "replace_first", "replace_last", "remove", "remove_first"),
            *("remove_last", "upcase", "downcase", "capitalize", "escape", "escape_once", "url_encode"),
            *("url_decode", "strip", "lstrip", "rstrip", "squish", "strip_html", "strip_newlines"),
            *("newline_to_br", "split", "truncate", "truncatewords", "base64_encode", "base64_decode"),
            *("base64_url_safe_encode", "base64_url_safe_decode"),
            *("md5", "sha1", "sha256", "hmac_sha1", "hmac_sha256", "blake3"),
        ),
        _scalar_as_text,
    ),
    "join": _items_as_text,
    "slice": _unless_list,
}


_AMOUNT: Final = re.compile(r"-?\d{1,40}(?:\.\d{1,40})?\Z")


def _is_amount_beside_number(text: object, number: object) -> bool:
    is_number = isinstance(number, int | float) and not isinstance(number, bool)
    return is_number and isinstance(text, str) and _AMOUNT.match(text) is not None


def _comparable(left: object, right: object) -> tuple[object, object]:
    """Returns both operands, as exact decimals if one is a number and the other an amount as text."""
    if _is_amount_beside_number(left, right) or _is_amount_beside_number(right, left):
        return _exact(left), _exact(right)
    return left, right


def _exact(value: object) -> Decimal:
    return Decimal(value if isinstance(value, str) else repr(value))


_library_lt, _library_le, _library_eq = logical._lt, logical._le, logical._eq


def _lt(token: Token, left: object, right: object) -> bool:
    return _library_lt(token, *_comparable(left, right))


def _le(left: object, right: object) -> bool:
    return _library_le(*_comparable(left, right))


def _eq(left: object, right: object) -> bool:
    """Raises LiquidTypeError for an amount as text and a number, whose equality is undocumented."""
    for text, number in ((left, right), (right, left)):
        if _is_amount_beside_number(text, number):
            raise LiquidTypeError(
                f"“{text}” is a text and {number} a number; compare them with <= and >=, "
                "or the text with a text in quotes",
                token=None,
            )
    return _library_eq(left, right)


# python-liquid has no setting for comparisons, see decision 0287.
vars(logical).update(_lt=_lt, _le=_le, _eq=_eq)
vars(case_tag).update(_eq=_eq)


def _guarded(filter_function: Callable[..., Any], text_of: Callable[[Any], Any] | None) -> Callable[..., Any]:
    """Wraps a filter with limits on the ranges it receives and the texts it returns."""

    def guarded(*arguments: Any, **keywords: Any) -> Any:
        if any(isinstance(value, range) and len(value) > _RANGE for value in arguments):
            raise LiquidTypeError(f"a range has at most {_RANGE} numbers here", token=None)
        if text_of is not None:
            arguments = tuple(text_of(value) for value in arguments)
        filtered = filter_function(*arguments, **keywords)
        if isinstance(filtered, str) and len(filtered) > _TEXT_BYTES:
            raise LiquidTypeError("the text is too long", token=None)
        return filtered

    for mark in ("with_context", "with_environment"):
        if getattr(filter_function, mark, False):
            setattr(guarded, mark, True)
    return guarded


class LiquidText:
    """The Liquid operations of a child process; each takes JSON text and yields values."""

    def __init__(self) -> None:
        self._environment = _LimitedEnvironment()
        self.operations: dict[str, Callable[[dict[str, Any], str], Iterator[object]]] = {
            "render": self._render,
            "check": self._check,
        }
        self._warm()

    def _warm(self) -> None:
        """Loads what the library would load lazily, because no file can be opened later."""
        text = (
            "{% assign a = 'b,c' | split: ',' %}{% for x in a %}{{ x | upcase | escape }}{% endfor %}"
            "{{ 1.5 | times: 2 | round }}{{ 'x' | strip_html | url_encode | base64_encode | md5 | blake3 }}"
            "{% capture z %}{% case 1 %}{% when 1 %}{{ 'now' | date: '%Y %B' }}{% endcase %}{% endcapture %}"
            "{% if a contains 'b' and nope.nope %}{% endif %}{{ 2 | money }}{{ 'k' | hmac_sha256: 'v' }}"
            "{{ 'May 1, 2020' | date: '%Y' }}"
        )
        self._render_text(text, {})
        self._render_text("{{ 'x' | nope }}{{ (1..3) | join: ',' }}", {})
        self._problems("{{ a | nope }}{% for %}")
        self._problems("{{ a | nope }}{{ a.b[0] }}")

    def _render(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        message = json.loads(payload)
        self._environment.moment = datetime.fromtimestamp(message["now"] / 1000, UTC)
        for text in message["texts"]:
            yield self._render_text(text, message["environment"])

    def _render_text(self, text: str, environment: Mapping[str, object]) -> list[str | None]:
        """Returns [text, None], or [None, message]."""
        try:
            return [self._environment.from_string(text).render(**_named(environment)), None]
        except LiquidError as error:
            return [None, _error_text(error)]
        except RecursionError:
            return [None, "it is nested too deeply"]
        except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError):
            return [None, "a filter was given a value it cannot work with"]

    def _check(self, request: dict[str, Any], payload: str) -> Iterator[object]:
        for text in json.loads(payload):
            yield self._problems(text)

    def _problems(self, text: str) -> list[str]:
        try:
            parsed = self._environment.from_string(text)
            analysis = parsed.analyze()
        except LiquidError as error:
            return [_error_text(error)]
        except RecursionError:
            return ["it is nested too deeply"]
        unknown = [
            f"unknown filter “{name}”" for name in analysis.filters if name not in self._environment.filters
        ]
        return unknown + [
            f"“{path}” takes an item of a list by its number" for path in _numbered(analysis.variables)
        ]


def _named(environment: Mapping[str, object]) -> dict[str, Any]:
    return {str(name): value for name, value in environment.items()}


def _numbered(variables: Mapping[str, Iterable[Any]]) -> list[str]:
    return [
        str(variable)
        for uses in variables.values()
        for variable in uses
        if any(isinstance(segment, int) for segment in getattr(variable, "segments", ()))
    ]


def _error_text(error: LiquidError) -> str:
    return str(error).splitlines()[0][:300] if str(error) else "it cannot be read"
