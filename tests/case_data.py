"""Finds the case data that tests replay: what we recorded is in `tests/data`, what others published is not.

`CASE_DATA=n8n_cases=/some/folder,schedule_cases.json=/some/file` runs the same tests on other cases of the
same form. `EXPORTS_DIR` names a folder of published n8n and Shopify Flow exports.
"""

import os
from pathlib import Path

import pytest

_RECORDED = Path(__file__).parent / "data"
_PUBLISHED = Path(__file__).resolve().parents[2] / "shared" / "data"


def _replacements() -> dict[str, Path]:
    named = os.environ.get("CASE_DATA") or os.environ.get("SHARED_DATA", "")
    pairs = (entry.partition("=") for entry in named.split(",") if entry)
    return {name: Path(path).resolve() for name, _, path in pairs}


def case_data(path: str) -> Path:
    """Returns the file or folder `path` of the recorded cases, or what `CASE_DATA` names in its place."""
    for name, replacement in _replacements().items():
        if path == name or path.startswith(f"{name}/"):
            file = Path(f"{replacement}{path.removeprefix(name)}")
            if not file.exists():
                pytest.fail(f"CASE_DATA names {file} for {path!r}, but it does not exist", pytrace=False)
            return file
    return _RECORDED / path


def published_exports() -> list[Path]:
    """Returns the published exports in `EXPORTS_DIR` or beside the repository. Skips the test without any."""
    named = os.environ.get("EXPORTS_DIR")
    if named:
        folders = [Path(named)]
    else:
        folders = [_PUBLISHED / "n8n_exports", _PUBLISHED / "flow_exports"]
    exports = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".json", ".flow")]
    if not exports:
        pytest.skip("there are no published exports: EXPORTS_DIR names the folder that holds them")
    return sorted(exports)
