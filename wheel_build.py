"""Refuses a package whose built files are missing or changed; `make built` makes and lists them."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = (
    *("static/index.html", "static/manifest.json", "static/pages.json"),
    *(f"sandbox/built/{name}.js" for name in ("luxon", "jmespath", "showdown")),
    "connectors/shopify/built/schema.json",
)


class AllIsBuilt(BuildHookInterface):  # type: ignore[type-arg]
    """Checks the built files of a wheel and of a source distribution; of an editable installation none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError naming what is missing, ValueError naming what was changed since."""
        if version == "editable":
            return
        package = Path(self.root) / "steward"
        built = _built_module(package)
        missing = [name for name in (*NEEDED, built.LIST) if not (package / name).is_file()]
        if missing:
            raise FileNotFoundError(f"steward has no {', '.join(missing)}: build with `make built`.")
        changed = built.differences(package)
        if changed:
            raise ValueError(f"Changed since `make built` listed it: {', '.join(changed)}.")


def _built_module(package: Path) -> ModuleType:
    """Loads `steward/built.py` by its path: where a wheel is built, `steward` is not installed."""
    spec = importlib.util.spec_from_file_location("steward_built", package / "built.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
