"""Distils the fields a flow may read out of Shopify's published schemas into one small table.

Run by `make` as `python schema_build.py FOLDER TARGET`: needs nothing but Python. What is not the same in
every version the connector speaks is left out, so that a query made from the table is valid in all of them.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

VERSIONS = ("2026-01", "2026-04", "2026-07", "2026-10")
# Where flows begin to read: what their triggers are about, what they fetch, and the shop.
ROOTS = (
    *("Order", "Product", "Customer", "DraftOrder", "ProductVariant", "InventoryItem", "InventoryLevel"),
    *("Collection", "Fulfillment", "FulfillmentOrder", "Refund", "Return", "Location", "Company", "Shop"),
)
FETCHED = {"orders": "OrderSortKeys", "products": "ProductSortKeys", "customers": "CustomerSortKeys"}
_LEAVES = ("SCALAR", "ENUM")


def table(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """{type: {field: sign and type}} of what all schemas have; the signs are read in schema_table.py."""
    all_types = [{each["name"]: each for each in one["data"]["__schema"]["types"]} for one in schemas]
    same: dict[str, dict[str, str]] = {}
    for name in set(all_types[0]).intersection(*all_types[1:]):
        told = [_fields(types, types[name]) for types in all_types]
        same[name] = {
            field: sign for field, sign in told[0].items() if all(one.get(field) == sign for one in told[1:])
        }
    kept: dict[str, dict[str, str]] = {}
    left = list(ROOTS)
    while left:
        name = left.pop()
        if name in kept:
            continue
        kept[name] = {field: sign for field, sign in sorted(same[name].items()) if _leads(sign, same)}
        left += [sign[1:] for sign in kept[name].values() if sign[0] not in "st"]
    nodes = {name for name in kept if all(_is_node(types[name]) for types in all_types)}
    sorts = {
        root: [each["name"] for each in all_types[0][enum]["enumValues"]] for root, enum in FETCHED.items()
    }
    return {
        "versions": list(VERSIONS),
        "types": dict(sorted(kept.items())),
        "nodes": sorted(nodes),
        "sorts": sorts,
    }


def _leads(sign: str, same: dict[str, dict[str, str]]) -> bool:
    """Whether something can be read at the field: a value, or an object with values."""
    return sign[0] in "st" or bool(same.get(sign[1:]))


def _is_node(kind: dict[str, Any]) -> bool:
    return any(each["name"] == "Node" for each in kind.get("interfaces") or ())


def _fields(types: dict[str, Any], kind: dict[str, Any]) -> dict[str, str]:
    if kind["kind"] not in ("OBJECT", "INTERFACE"):
        return {}
    signs = ((each["name"], _sign(types, each)) for each in kind["fields"] or ())
    return {name: sign for name, sign in signs if sign is not None}


def _sign(types: dict[str, Any], field: dict[str, Any]) -> str | None:
    """How the field is read; None where it needs a value nobody could give, or is of several kinds."""
    lists, here = 0, field["type"]
    while here["kind"] in ("NON_NULL", "LIST"):
        lists += here["kind"] == "LIST"
        here = here["ofType"]
    arguments = {each["name"]: each for each in field["args"]}
    needed = {
        name
        for name, each in arguments.items()
        if each["type"]["kind"] == "NON_NULL" and each.get("defaultValue") is None
    }
    if here["name"] == "Metafield" and field["name"] == "metafield" and needed <= {"key"}:
        return "mMetafield"
    if needed or lists > 1:
        return None
    if here["kind"] in _LEAVES:
        return ("t" if lists else "s") + here["name"]
    if here["kind"] not in ("OBJECT", "INTERFACE"):
        return None
    if here["name"].endswith("Connection"):
        return _connection(types[here["name"]], arguments)
    if lists:
        return ("f" if "first" in arguments else "l") + here["name"]
    return "o" + here["name"]


def _connection(kind: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    own = {each["name"]: each["type"] for each in kind["fields"]}
    if not {"nodes", "pageInfo"} <= own.keys() or not {"first", "after"} <= arguments.keys():
        return None
    here = own["nodes"]
    while here["kind"] in ("NON_NULL", "LIST"):
        here = here["ofType"]
    return "c" + here["name"] if here["kind"] in ("OBJECT", "INTERFACE") else None


def main(folder: str, target: str) -> None:
    """Writes the table."""
    read = [
        json.loads(gzip.decompress((Path(folder) / f"admin_{version}.json.gz").read_bytes()))
        for version in VERSIONS
    ]
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    made = json.dumps(table(read), separators=(",", ":"))
    unfinished = Path(f"{target}.unfinished")
    unfinished.write_text(made, "utf-8")
    unfinished.replace(target)  # whole: a service or a `steward doctor` may read it at this moment


if __name__ == "__main__":
    main(*sys.argv[1:])
