"""The Python client as a build makes it: its generated modules are written before a test imports it."""

import importlib.util
from typing import Any

from steward.api import openapi
from steward.api.operations import OPERATIONS
from steward.version import __version__
from tests.populated_service import populated
from tests.source import ROOT

__all__ = ["populated"]  # a fixture

PYTHON = ROOT / "clients/python"


def generator() -> Any:
    """The module that writes records and operations."""
    spec = importlib.util.spec_from_file_location("generate", PYTHON / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


generator().write(openapi.document(OPERATIONS, "/", version=__version__), PYTHON / "steward_client")
