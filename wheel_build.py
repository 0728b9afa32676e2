"""Refuses a wheel without what is built before it, by `make wheel`: the web app, scripts' library, schema."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = (
    *("static/index.html", "static/manifest.json", "static/pages.json"),
    *(f"sandbox/built/{name}.js" for name in ("luxon", "jmespath", "showdown")),
    "connectors/shopify/built/schema.json",
)


class AllIsBuilt(BuildHookInterface):  # type: ignore[type-arg]
    """Looks for what is made before a wheel; an editable installation needs none of it checked."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError naming what is missing and how to make it."""
        folder = Path(self.root) / "steward"
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if missing and version != "editable":
            raise FileNotFoundError(f"steward has no {', '.join(missing)}: build with `make wheel`.")
