"""The client of Steward's Automations API: `Steward`, and `AsyncSteward` for asyncio.

There is no way to approve: changes to a store are approved by people, in the web app.
"""

from steward_client.client import AsyncSteward, Steward
from steward_client.records import VERSION as __version__

__all__ = ["AsyncSteward", "Steward", "__version__"]
