"""Operations that only an undo plans: removing a metafield or a redirect, and their look-ups."""

from collections.abc import Mapping, Sequence

from steward.connectors.base.connector import PlannedChanges
from steward.connectors.base.inverses import NOT_LOOKED_UP, mirrored
from steward.connectors.shopify import current, documents
from steward.connectors.shopify.operations import ShopifyOperation
from steward.connectors.shopify.paging import StoreQueries
from steward.connectors.shopify.requests import HOLD_HANDLE
from steward.connectors.shopify.responses import Row, gid, list_of, number_of, row_of, text
from steward.model.change import Action, Part
from steward.model.ids import IntegrationId
from steward.model.json import JsonObject, JsonValue
from steward.model.undo import CHANGED_SINCE, GONE, TWICE, FoundInverse, Inverse, LookUpResult, PutBack
from steward.outbound.errors import RemoteNotFound

_NO_HOLD = "It is not held by this service any more."
_OTHER_HOLDS = "Somebody else holds it too, so its hold is left as it is."


class _DeletionOperation(ShopifyOperation[object]):
    """The base of removals that only an undo plans."""

    __slots__ = ()

    def plan(self, commands: Sequence[object], *, integration_id: IntegrationId) -> PlannedChanges:
        """Plans nothing: no template and no import removes these objects."""
        return PlannedChanges((), ())


class _MetafieldDeletion(_DeletionOperation):
    """`metafield.delete`: removes a metafield that a run created."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"value": None}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that creates the metafield again with its earlier value."""
        return PutBack(mirrored(part, {**part.arguments, "digest": None}, "metafield.set"))

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by the metafield, whichever operation sets it."""
        return {f"metafield|{part.target}": value}


class _RedirectDeletion(_DeletionOperation):
    """`redirect.delete`: removes a redirect that a run created."""

    __slots__ = ()

    def _after(self, before: JsonValue, arguments: JsonObject) -> JsonValue:
        return {"target": None}

    def inverse(self, part: Part) -> Inverse:
        """Returns the part that creates the redirect again."""
        return PutBack(mirrored(part, {"target": part.arguments["target"]}, "redirect.create"))

    def values(self, part: Part, value: JsonValue) -> Mapping[str, JsonValue]:
        """Names the value by the path, whichever operation sets it."""
        return {f"redirect|{part.target}": value}


async def look_up(queries: StoreQueries, part: Part) -> LookUpResult:
    """Looks up the inverse of a part, or why there is none. Raises CallError."""
    match part.operation:
        case "metafield.set":
            return await _metafield_before(queries, part)
        case "redirect.create":
            return await _redirect_removed(queries, part)
        case "fulfillment.hold":
            return await _hold_ended(queries, part)
        case _:
            return NOT_LOOKED_UP


async def look_up_overwritten(queries: StoreQueries, part: Part) -> LookUpResult:
    """Looks up the inverse of a part after a newer part of its run was undone. Raises CallError."""
    match part.operation:
        case "metafield.set":
            return FoundInverse(
                (_metafield_part(part, {"type": part.arguments["type"]}, part.arguments["value"]),)
            )
        case "redirect.create":
            stored = await current.redirect(queries, part.target)
            return GONE if stored is None else FoundInverse((_redirect_part(part, stored.id),))
        case _:
            return TWICE


def _metafield_part(part: Part, read: JsonObject, value: JsonValue) -> Part:
    """Returns the part that sets the earlier value again, or removes a metafield that did not exist."""
    before = part.before["value"] if isinstance(part.before, dict) else None
    named: JsonObject = {name: part.arguments[name] for name in ("owner", "namespace", "key")}
    if before is None:
        return mirrored(part, {**named, "type": read["type"], "value": value}, "metafield.delete")
    return mirrored(part, {**named, **read, "value": before})


def _redirect_part(part: Part, redirect_id: str) -> Part:
    assert isinstance(part.after, dict)
    return mirrored(part, {"id": redirect_id, "target": part.after["target"]}, "redirect.delete")


async def _metafield_before(queries: StoreQueries, part: Part) -> LookUpResult:
    try:
        stored = await current.metafield_of_part(queries, part)
    except RemoteNotFound:
        return GONE
    if stored is None:
        return GONE
    if part.after != {"value": stored.value}:
        return CHANGED_SINCE
    read: JsonObject = {"type": stored.type, "digest": stored.digest}
    return FoundInverse((_metafield_part(part, read, stored.value),))


async def _redirect_removed(queries: StoreQueries, part: Part) -> LookUpResult:
    stored = await current.redirect(queries, part.target)
    if stored is None:
        return GONE
    if part.after != {"target": stored.target}:
        return CHANGED_SINCE
    return FoundInverse((_redirect_part(part, stored.id),))


async def _hold_ended(queries: StoreQueries, part: Part) -> LookUpResult:
    async for rows in queries.nodes(documents.HOLDS, [gid("FulfillmentOrder", part.target)], 1):
        for row in rows:
            holds = [row_of(hold) for hold in list_of(row, "fulfillmentHolds")]
            ours = [hold for hold in holds if _is_ours(hold)]
            if not ours:
                return _NO_HOLD
            if len(holds) > 1:
                return _OTHER_HOLDS
            named: JsonObject = {"holds": [number_of(ours[0].get("id"))]}
            operation, integration = "fulfillment.release", part.integration_id
            return FoundInverse((Part(operation, integration, part.target, named, named, {"holds": []}),))
    return GONE


def _is_ours(hold: Row) -> bool:
    return hold.get("heldByRequestingApp") is True and text(hold, "handle") == HOLD_HANDLE


DELETE_METAFIELD = _MetafieldDeletion("metafield.delete", action=Action.DELETE)
DELETE_REDIRECT = _RedirectDeletion("redirect.delete", action=Action.DELETE)
