"""Makes every test here read zones from the package alone, as every process does.

See docs/design/schedule.md#zones.
"""

import pytest

from steward.scheduling.zones import use_packaged_zones


@pytest.fixture(scope="session", autouse=True)
def _packaged_zones() -> None:
    use_packaged_zones()
