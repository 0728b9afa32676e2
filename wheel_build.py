"""Refuses a wheel without the web app: it is built before, by `make wheel` (web 11, In the wheel)."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NEEDED = ("index.html", "manifest.json", "pages.json")


class WebAppIsThere(BuildHookInterface):  # type: ignore[type-arg]
    """Looks for what the build of the web app leaves; an editable installation needs none."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError naming what is missing and how to make it."""
        folder = Path(self.root) / "steward" / "static"
        missing = [name for name in NEEDED if not (folder / name).is_file()]
        if missing and version != "editable":
            raise FileNotFoundError(f"steward/static has no {', '.join(missing)}: build with `make wheel`.")
