"""Reads exports that other people published; they are not in the repository."""

from tests.case_data import published_exports
from tests.fuzz.test_exports import check_altered
from tests.imports.shopify_flow.test_recorded import REDIRECT_OF_ARCHIVED, check_flows
from tests.imports.survey import survey


async def test_published_exports_are_read_without_breaking() -> None:
    """Reads every published export without breaking, also with its values exchanged for others."""
    exports = published_exports()
    report = await survey(exports, None)
    assert report.broke == []
    check_altered([path.read_text("utf-8") for path in exports if path.suffix == ".json"], 300)
    await check_flows(
        {path: REDIRECT_OF_ARCHIVED for path in exports if path.stem.startswith("real_auto-redirect")}
    )
