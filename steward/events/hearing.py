"""Whether each topic automations wait for is listened to, as shown with them; works out and keeps it."""

from collections.abc import Mapping

from steward.connectors.base.connector import Connector
from steward.database.engine.base import Tx
from steward.database.events import catch_ups, subscriptions
from steward.database.events.catch_ups import CatchUp, Fill
from steward.database.events.subscriptions import Heard, Subscribed, SubscriptionState
from steward.model.ids import IntegrationId, OrgId

GONE = "The store cannot send this any more."


async def tell(tx: Tx, org: OrgId, integration: IntegrationId, connector: Connector) -> None:
    """Keeps what is heard of every topic wanted: subscribed, and for derived ones filled (connectors 8)."""
    listener = await subscriptions.lock(tx, org, integration)
    if listener is None:
        return
    read = await catch_ups.of(tx, org, integration)
    for topic in await subscriptions.topics_wanted(tx, org, integration):
        state, reason = _heard(topic, connector, listener.subscribed, read)
        await subscriptions.set_heard(tx, org, integration, topic, state=state, reason=reason)
    await subscriptions.forget_unheard(tx, org, integration)


def _heard(
    topic: str, connector: Connector, subscribed: Mapping[str, Subscribed], read: Mapping[str, CatchUp]
) -> tuple[Heard, str | None]:
    spec = connector.topics.get(topic)
    if spec is None:
        return Heard.FAILED, GONE
    own = [subscribed.get(native, Subscribed(native)) for native in spec.native]
    failed = next((one for one in own if one.state is SubscriptionState.FAILED), None)
    if failed is not None:
        return Heard.FAILED, failed.reason
    made = all(one.state is SubscriptionState.MADE for one in own)
    filled = all(kind in read and read[kind].fill is Fill.DONE for kind in spec.snapshot_types)
    return (Heard.YES if made and filled else Heard.NOT_YET), None
