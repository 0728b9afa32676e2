"""Finds the shared case files beside the repository; a test that needs an absent one is skipped loudly.

`SHARED_DATA=schedule_cases.json=/some/file,woocommerce=/some/folder` puts other files in their place.
"""

import os
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2] / "shared" / "data"


def _instead() -> dict[str, Path]:
    pairs = (entry.partition("=") for entry in os.environ.get("SHARED_DATA", "").split(",") if entry)
    return {name: Path(place).resolve() for name, _, place in pairs}


def shared(path: str) -> Path:
    """The file or folder `path` of the shared case data; skips the test, saying so, when it is absent.

    One that was named on purpose must be there: its absence fails.
    """
    for name, place in _instead().items():
        if path == name or path.startswith(f"{name}/"):
            found = Path(f"{place}{path.removeprefix(name)}")
            if not found.exists():
                pytest.fail(f"{found} was to be used for {path!r}, and is not there", pytrace=False)
            return found
    found = _ROOT / path
    if not found.exists():
        words = f"SKIPPED LOUDLY: case data {path!r} is not beside the repository"
        pytest.skip(words, allow_module_level=True)
    return found
