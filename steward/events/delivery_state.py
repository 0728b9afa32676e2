"""Computes and stores whether each topic is delivered, which the API shows with automations."""

from collections.abc import Mapping

from steward.connectors.base.connector import Connector
from steward.connectors.base.deliveries import TopicSpec
from steward.database.engine.base import Tx
from steward.database.events import catch_ups, subscriptions
from steward.database.events.catch_ups import CatchUp, Fill
from steward.database.events.subscriptions import DeliveryState, StoredState, StoredSubscription
from steward.model.ids import IntegrationId, OrgId

GONE = "The store can no longer send this."


async def update_deliveries(tx: Tx, org: OrgId, integration: IntegrationId, connector: Connector) -> None:
    """Stores the delivery state of every needed topic: subscribed and, for derived topics, filled."""
    listener = await subscriptions.lock(tx, org, integration)
    if listener is None:
        return
    read = await catch_ups.of(tx, org, integration)
    for topic in await subscriptions.needed_topics(tx, org, integration):
        state, reason = _delivery_of(topic, connector, listener.subscribed, read)
        await subscriptions.set_delivery(tx, org, integration, topic, state=state, reason=reason)
    await subscriptions.forget_unneeded(tx, org, integration)


def _delivery_of(
    topic: str,
    connector: Connector,
    subscribed: Mapping[str, StoredSubscription],
    read: Mapping[str, CatchUp],
) -> tuple[DeliveryState, str | None]:
    """Returns the delivery state of a topic, and the reason why it failed."""
    spec = connector.topics.get(topic)
    if spec is None:
        return DeliveryState.FAILED, GONE
    subscriptions_of_topic = [subscribed.get(native, StoredSubscription(native)) for native in spec.native]
    failed = next(
        (subscription for subscription in subscriptions_of_topic if subscription.state is StoredState.FAILED),
        None,
    )
    if failed is not None:
        return DeliveryState.FAILED, failed.reason
    is_active = all(subscription.state is StoredState.ACTIVE for subscription in subscriptions_of_topic)
    if is_active and _is_filled(spec, read):
        return DeliveryState.ACTIVE, None
    return DeliveryState.PENDING, None


def _is_filled(spec: TopicSpec, read: Mapping[str, CatchUp]) -> bool:
    """Returns whether every snapshot that the topic is derived from is complete."""
    return all(kind in read and read[kind].fill is Fill.DONE for kind in spec.snapshot_types)
