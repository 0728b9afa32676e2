"""Every text of a refusal that stands in the code begins as a sentence does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from steward.api.schema.fields import field_error
from steward.cli.command import CommandFailed, WrongUsage
from steward.cli.serve import CannotServe
from steward.connectors.base.settings import BadSettings
from steward.model.refusals import Refusal
from steward.outbound.errors import CallError, CallRefused, Throttled, UnusableResponse
from tests.source import name_of, nodes_of, python_files

# What these take is a part of a sentence of their own; `Refused.sentence` makes a rule one.
_PARTS = {
    item.__name__ for item in (CallRefused, UnusableResponse, Throttled, *UnusableResponse.__subclasses__())
}
_COLLECTIONS = {"errors", "faults", "fault", "found"}


def _named(base: type) -> set[str]:
    return {base.__name__}.union(*(_named(item) for item in base.__subclasses__()))


RAISED = (_named(Refusal) | _named(CallError)) - _PARTS
RAISED |= {entry.__name__ for entry in (BadSettings, CommandFailed, WrongUsage, CannotServe, field_error)}


def _texts(node: ast.AST | None, names: dict[str, ast.expr]) -> Iterator[tuple[int, str]]:
    """The texts an expression may come to, as far as they stand in the file, each with its line."""
    match node:
        case ast.Constant(value=str(text)):
            yield node.lineno, text
        case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            yield node.lineno, text
        case ast.BinOp(left=left):
            yield from _texts(left, names)
        case ast.IfExp(body=body, orelse=other):
            yield from _texts(body, names)
            yield from _texts(other, names)
        case (
            ast.BoolOp(values=values)
            | ast.List(elts=values)
            | ast.Tuple(elts=values)
            | ast.Dict(values=values)
        ):
            for value in values:
                yield from _texts(value, names)
        case ast.Name(id=name) if name in names:
            yield from _texts(names[name], {})
        case _:
            pass


def _collected(path: Path) -> Iterator[tuple[int, str]]:
    names = {
        target.id: node.value
        for node in nodes_of(path)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    coded = {"CommandFailed"}
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module in {
            "steward.outbound.errors",
            "steward.connectors.base.connector",
        }:
            coded |= {"MissingRight", "Invalid"} & {alias.name for alias in node.names}
    for node in nodes_of(path):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in RAISED:
                # A code, or the right or the fields that a platform refused, stands before the text.
                for argument in node.args[1:] if name in coded else node.args:
                    yield from _texts(argument, names)
                for keyword in node.keywords:
                    if keyword.arg in {"message", "errors", "why"}:
                        yield from _texts(keyword.value, names)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]) if name in _COLLECTIONS:
                yield from _texts(node.value, names)
            case ast.ClassDef(name=name) if name in RAISED:
                for stmt in node.body:
                    match stmt:
                        case (
                            ast.AnnAssign(target=ast.Name(id="words"))
                            | ast.Assign(targets=[ast.Name(id="words")])
                        ):
                            yield from _texts(stmt.value, names)
                        case _:
                            pass
            case _:
                pass


def test_the_texts_of_refusals_begin_as_sentences() -> None:
    """A refusal is read by people: capital letter first, wherever it is raised."""
    wrong: list[str] = []
    count = 0
    for path in python_files("steward"):
        for line, text in _collected(path):
            count += 1
            if text[:1].islower():
                wrong.append(f"{name_of(path)}:{line}: {text}")
    assert not wrong, "\n".join(wrong)
    assert count > 240, "the texts are no longer found where they stand"


@pytest.mark.parametrize(
    "rule", ["a host is given by name, not as an address", "only https addresses are called"]
)
def test_the_rule_of_a_stopped_call_can_be_used_by_itself(rule: str) -> None:
    """`sentence` is what a form shows at its field."""
    refused = CallRefused(rule)
    assert refused.sentence == f"{rule[0].upper()}{rule[1:]}."
    assert refused.message == f"The call was stopped: {rule}."
