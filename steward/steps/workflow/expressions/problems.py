"""Turns compile errors that the sandbox reports into problems of the checked parameters."""

from collections.abc import Sequence

from steward.model.json import JsonValue
from steward.steps.workflow.expressions.message import crash_error
from steward.steps.workflow.expressions.template import Chunk, Lang, ParameterTemplate
from steward.steps.workflow.expressions.views import ExpressionProblem


def chunks_of(template: ParameterTemplate) -> list[tuple[int, str]]:
    """Returns the chunks that are not paths, each with the column where it begins, from 1."""
    if template.lang is not Lang.JS:
        return []
    chunks: list[tuple[int, str]] = []
    column = 1 + len("=")
    for part in template.parts:
        if not isinstance(part, Chunk):
            column += len(part)
            continue
        if part.path is None:
            chunks.append((column + len("{{"), part.code))
        column += len("{{") + len(part.code) + len("}}")
    return chunks


def template_problems(
    chunks: Sequence[Sequence[tuple[int, str]]], reply: JsonValue
) -> tuple[tuple[ExpressionProblem, ...], ...]:
    """Returns the problems of templates; columns count characters of the parameter's text."""
    results = _list(reply, len(chunks))
    return tuple(
        tuple(
            _problem(problem, column - 1)
            for (column, _), problems in zip(columns, _list(result, len(columns)), strict=True)
            for problem in _list(problems)
        )
        for columns, result in zip(chunks, results, strict=True)
    )


def script_problems(reply: JsonValue, count: int) -> tuple[tuple[ExpressionProblem, ...], ...]:
    """Returns the problems of scripts."""
    return tuple(tuple(_problem(problem) for problem in _list(result)) for result in _list(reply, count))


def liquid_problems(reply: Sequence[JsonValue]) -> tuple[tuple[ExpressionProblem, ...], ...]:
    """Returns the problems of Liquid texts, which the library reports as messages."""
    return tuple(
        tuple(
            ExpressionProblem(
                "expression_feature",
                "error",
                f"The text cannot be made: {message}.",
                "Correct the text in Shopify Flow and export again.",
            )
            for message in _list(result)
        )
        for result in reply
    )


def _list(value: JsonValue, count: int | None = None) -> Sequence[JsonValue]:
    if not isinstance(value, list) or (count is not None and len(value) != count):
        raise crash_error()
    return value


def _problem(encoded: JsonValue, before: int = 0) -> ExpressionProblem:
    if not isinstance(encoded, dict):
        raise crash_error()
    column, variable = encoded.get("column"), encoded.get("variable")
    return ExpressionProblem(
        str(encoded.get("code")),
        str(encoded.get("level")),
        str(encoded.get("message")),
        str(encoded.get("what_to_do")),
        before + (column if isinstance(column, int) else 1),
        encoded.get("syntax") is True,
        variable if isinstance(variable, str) else None,
    )
