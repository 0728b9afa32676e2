"""Checks that the files built into the package by `make built` are present and unchanged."""

from pathlib import Path

from steward import built
from steward.connectors.shopify.schema_table import schema_table

PACKAGE = Path(__file__).parents[1]
BUILT = {
    "sandbox/built/luxon.js": "dates in scripts (expressions of imported workflows fail)",
    "sandbox/built/jmespath.js": "queries in scripts (expressions of imported workflows fail)",
    "sandbox/built/showdown.js": "Markdown (imported workflows that turn it into HTML fail)",
}
_FIELDS = "the fields of Shopify (its flows can be neither imported nor run)"


def compare() -> tuple[bool, str]:
    """Compares the built files with their list, if any; returns whether they match, and a message.

    Every wheel has the list; a checkout has one after `make built`.
    """
    missing = [description for path, description in BUILT.items() if not (PACKAGE / path).is_file()]
    try:
        schema_table()
    except (OSError, ValueError, LookupError, TypeError):
        missing.insert(0, _FIELDS)
    if missing:
        return False, (
            f"Missing or not readable: {'; '.join(missing)}. Install this release again;"
            " where Steward runs from a checkout, run: make setup."
        )
    if not (PACKAGE / built.LIST).is_file():
        return True, "All built files are present."
    changed = built.differences(PACKAGE)
    if changed:
        return False, (
            f"{len(changed)} files are not as this release was built: {', '.join(changed[:5])}."
            " Install this release again; where Steward runs from a checkout, run: make built."
        )
    return True, "All built files are present and unchanged."
