"""Adds to a folder with a built wheel what a release has beside it: the API's document and the list of parts.

`python release_build.py dist` writes `openapi.json` and `steward.cdx.json` (CycloneDX 1.5: every package that
is installed with the wheel and every JavaScript package inside it). `make release` calls it.
"""

import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from steward.api.openapi import document
from steward.api.operations import OPERATIONS
from steward.version import __version__

ROOT = Path(__file__).parent
DISTRIBUTION = "steward-automations"
# Each lock file of JavaScript with the folder of licences that its build writes.
LOCKS = (
    (ROOT / "web/package-lock.json", ROOT / "steward/static/licenses"),
    (ROOT / "steward/sandbox/package-lock.json", ROOT / "steward/sandbox/built/licenses"),
)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)


def license_file(name: str, version: str) -> str:
    """Returns the name of the file that holds the licence of a JavaScript package."""
    return f"{name.replace('@', '').replace('/', '-')}-{version}.txt"


def bundled_packages() -> dict[str, tuple[str, str, str]]:
    """Returns name, version and licence of each JavaScript package in the wheel, by its licence file.

    Raises LookupError when a licence belongs to no package and version of the lock file.
    """
    packages = {}
    for lock, licenses in LOCKS:
        locked = {}
        for path, entry in json.loads(lock.read_text("utf-8"))["packages"].items():
            name = path.rpartition("node_modules/")[2]
            if name:
                locked[license_file(name, entry["version"])] = (name, entry["version"], entry["license"])
        for file in sorted(licenses.iterdir()):
            if file.name not in locked:
                raise LookupError(f"{file} is the licence of no package in {lock}.")
            packages[file.name] = locked[file.name]
    return packages


def bill_of_materials(at: datetime) -> dict[str, Any]:
    """Returns the CycloneDX document: the locked requirements, extras included, and bundled JavaScript."""
    components = [*_python_components(), *_javascript_components()]
    root = {"type": "application", "name": DISTRIBUTION, "version": __version__, "bom-ref": DISTRIBUTION}
    identity = json.dumps([root, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, identity)}",
        "version": 1,
        "metadata": {"timestamp": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": root},
        "components": components,
    }


def _python_components() -> Iterator[dict[str, Any]]:
    pins = {}
    for file in sorted(ROOT.glob("requirements*.txt")):
        if file.name not in ("requirements-dev.txt", "requirements-build.txt"):
            pins.update(dict(_PINNED.findall(file.read_text("utf-8"))))
    for name, version in sorted(pins.items()):
        yield _component(f"pkg:pypi/{name.lower()}@{version}", name, version, _python_license(name))


def _python_license(name: str) -> str | None:
    """Returns the SPDX expression that the installed package declares, if it declares one."""
    try:
        return metadata.metadata(name).get("License-Expression")
    except metadata.PackageNotFoundError:
        return None


def _javascript_components() -> Iterator[dict[str, Any]]:
    for name, version, license_name in bundled_packages().values():
        yield _component(f"pkg:npm/{quote(name, safe='/')}@{version}", name, version, license_name)


def _component(purl: str, name: str, version: str, expression: str | None) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "purl": purl,
        "name": name,
        "version": version,
    }
    if expression is not None:
        component["licenses"] = [{"expression": expression}]
    return component


def main(folder: Path) -> None:
    """Writes both documents into `folder`; their times are SOURCE_DATE_EPOCH."""
    at = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    public = document(OPERATIONS, "/", version=__version__)
    for name, content in (("openapi.json", public), ("steward.cdx.json", bill_of_materials(at))):
        (folder / name).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
