"""Calls the API of the shop's service as a program of its organization."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from steward.accounts import credentials, people
from steward.accounts.people import CreatePerson
from steward.database.engine.base import Tx
from steward.model.account import Role
from tests.people import Caller
from tests.runs.shop import Shop


@asynccontextmanager
async def api_client(shop: Shop) -> AsyncIterator[Caller]:
    """Provides an API client with a token of the shop's organization."""
    ring = shop.service.context.keys

    async def settle(tx: Tx) -> tuple[int, str, int]:
        command = CreatePerson(email="p@shop.example", first_name="P", last_name="Rogram", password_hash=None)
        person = await people.create(tx, command)
        await people.add_to_organization(tx, person, shop.owner.org, Role.MEMBER)
        issued = await credentials.issue(tx, ring, shop.owner.org, "tests")
        return person.id, issued.credential.client_id, issued.credential.epoch

    person, client, epoch = await shop.engine.write(shop.clock.now(), settle)
    token = ring.signer.sign(
        person=person,
        org=shop.owner.org,
        client_id=client,
        scopes=["automations:read", "automations:write"],
        epoch=epoch,
        jti="01JD3Z0QH8N2Y5V7W9X1C4B6A8",
        now=int(shop.clock.now().timestamp()),
    )
    gate: Any = shop.service.request_handler
    transport = httpx.ASGITransport(app=gate)
    base = shop.service.settings.base_url
    async with httpx.AsyncClient(transport=transport, base_url=base) as session:
        yield Caller(session, headers={"Authorization": f"Bearer {token}"})
