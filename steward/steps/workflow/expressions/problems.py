"""What a child found by compiling, put beside the parameters asked about, for Findings (imports 11)."""

from collections.abc import Sequence

from steward.model.json import JsonValue
from steward.steps.workflow.expressions.message import crashed
from steward.steps.workflow.expressions.template import Chunk, Lang, Template
from steward.steps.workflow.expressions.views import Problem


def chunks_of(template: Template) -> list[tuple[int, str]]:
    """The chunks of a template that are more than paths, each with the column it begins at, from 1."""
    if template.lang is not Lang.JS:
        return []
    found: list[tuple[int, str]] = []
    at = 1 + len("=")
    for part in template.parts:
        if not isinstance(part, Chunk):
            at += len(part)
            continue
        if part.path is None:
            found.append((at + len("{{"), part.code))
        at += len("{{") + len(part.code) + len("}}")
    return found


def of_templates(
    asked: Sequence[Sequence[tuple[int, str]]], told: JsonValue
) -> tuple[tuple[Problem, ...], ...]:
    """Problems of templates, their columns counted in the parameter's text."""
    answers = _list(told, len(asked))
    return tuple(
        tuple(
            _problem(problem, column - 1)
            for (column, _), problems in zip(columns, _list(answer, len(columns)), strict=True)
            for problem in _list(problems)
        )
        for columns, answer in zip(asked, answers, strict=True)
    )


def of_scripts(told: JsonValue, count: int) -> tuple[tuple[Problem, ...], ...]:
    """Problems of scripts."""
    return tuple(tuple(_problem(problem) for problem in _list(answer)) for answer in _list(told, count))


def of_liquid(told: Sequence[JsonValue]) -> tuple[tuple[Problem, ...], ...]:
    """Problems of Liquid texts, which the library tells in words."""
    return tuple(
        tuple(
            Problem(
                "expression_feature",
                "error",
                f"The text cannot be made: {words}.",
                "Mend the text in the store's product and export again.",
            )
            for words in _list(answer)
        )
        for answer in told
    )


def _list(value: JsonValue, count: int | None = None) -> Sequence[JsonValue]:
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise crashed()
    return value


def _problem(told: JsonValue, before: int = 0) -> Problem:
    if not isinstance(told, dict):
        raise crashed()
    column = told.get("column")
    return Problem(
        str(told.get("code")),
        str(told.get("level")),
        str(told.get("message")),
        str(told.get("what_to_do")),
        before + (column if isinstance(column, int) else 1),
        told.get("syntax") is True,
    )
