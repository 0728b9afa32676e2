"""Loads the platform's schema and its table of access scopes out of the package that carries them."""

import functools
import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from graphql import GraphQLSchema, build_client_schema

VERSIONS = ("2025-10", "2026-01", "2026-04", "2026-07", "2026-10", "unstable")
_FOLDER = Path(__file__).resolve().parents[3] / ".cache" / "shopify"
_SUMS = Path(__file__).with_name("schemas.sha256")


@functools.cache
def raw(version: str) -> dict[str, Any]:
    """The file of a version as it is; skips the test, saying so, when it was not fetched."""
    path = _FOLDER / f"admin_{version}.json.gz"
    if not path.exists():
        words = "SKIPPED LOUDLY: the Shopify schema is not there; run `make shopify-schema`"
        pytest.skip(words, allow_module_level=True)
    content = path.read_bytes()
    expected = dict(reversed(line.split()) for line in _SUMS.read_text("ascii").splitlines())
    if hashlib.sha256(content).hexdigest() != expected[path.name]:
        pytest.fail(f"{path.name} is not the file that was reviewed", pytrace=False)
    schema_parts: dict[str, Any] = json.loads(gzip.decompress(content))
    return schema_parts


@functools.cache
def schema_of(version: str) -> GraphQLSchema:
    """The schema of a version. Its own consistency check stumbles over deprecations in it."""
    return build_client_schema(raw(version)["data"], assume_valid=True)


@functools.cache
def scopes_of(version: str) -> dict[tuple[str, str | None], frozenset[str]]:
    """(type, field) or (type, None) → the scopes one of which is needed."""
    return {
        (item["typeName"], item.get("fieldName")): frozenset(item["offlineScopes"])
        for item in raw(version)["offline_scopes"]["items"]
        if item["offlineScopes"]
    }
