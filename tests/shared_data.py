"""Finds the shared case files beside the repository; a test that needs an absent one is skipped loudly."""

from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2] / "shared" / "data"


def shared(path: str) -> Path:
    """The file or folder `path` of the shared case data; skips the test, saying so, when it is absent."""
    found = _ROOT / path
    if not found.exists():
        pytest.skip(f"SKIPPED LOUDLY: case data {path!r} is not beside the repository")
    return found
