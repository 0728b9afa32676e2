"""The address in a digest that ends a person's digests; opening it shows a page and changes nothing."""

from dataclasses import replace
from functools import partial

from steward.api.http import envelope
from steward.api.http.operation import EmptyAnswer, RawOperation, RawRequest, Reply, ServiceContext
from steward.database.accounts import members
from steward.database.engine.base import Tx
from steward.database.notifications import own_preferences
from steward.model.notice import MailChoice
from steward.model.refusals import NotFound
from steward.security.unsubscribe import Subscriber, subscriber_of


async def post(raw_request: RawRequest, context: ServiceContext) -> Reply:
    """`POST /unsubscribe/{token}`: as the form of a mail program sends it; the body is ignored.

    Raises NotFound for a token that was not made here.
    """
    subscriber = subscriber_of(context.keys.cursor, raw_request.values[0])
    if subscriber is None:
        raise NotFound
    act = partial(_end_digests, subscriber=subscriber)
    await context.engine.write(context.clock.now(), act, org=subscriber.org)
    return envelope.accept(EmptyAnswer(), 200)


async def _end_digests(tx: Tx, *, subscriber: Subscriber) -> None:
    """Switches off every group that comes as a digest."""
    org, person = subscriber.org, subscriber.person
    if await members.get(tx, org, person) is None:
        return
    before = await own_preferences.get(tx, org, person)
    email = {
        group: MailChoice.OFF if choice is MailChoice.DIGEST else choice
        for group, choice in before.email.items()
    }
    if email != before.email:
        await own_preferences.save(tx, org, person, replace(before, email=email))


RAW_OPERATIONS = (
    RawOperation(
        method="POST",
        path="/unsubscribe/{unsubscribe_token}",
        function=post,
        summary="End a person's digests",
    ),
)
