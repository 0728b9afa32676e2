"""The pretend shop answers as the recorded real one did (connectors 11.3)."""

import json
from pathlib import Path

from steward.sandbox.deliveries import php_json, signature
from tests.sandbox import replay
from tests.shared_data import shared


def test_every_recorded_exchange_in_scope_is_answered_alike() -> None:
    """Status, error code, shape, and the values a request wrote (connectors 11.3)."""
    agree, total, differences = replay.replay(shared("woocommerce"))
    assert differences == []
    assert agree == total >= 260


def test_few_recorded_exchanges_are_out_of_scope() -> None:
    """The list of exceptions stays short: coupons, plain http, a broken machine."""
    left_out = []
    for path in sorted(shared("woocommerce").glob("*.json")):
        for exchange in json.loads(path.read_text("utf-8")).get("exchanges", []):
            if replay.out_of_scope(exchange) is not None:
                left_out.append(exchange["id"])
    others = [name for name in left_out if "coupon" not in name]
    assert others == ["auth.basic_over_http", "site.maintenance", "site.database_down_write"]


def test_a_replay_tells_of_a_status_a_key_and_a_value_that_differ(tmp_path: Path) -> None:
    """A replay that cannot fail would prove nothing."""
    content = json.loads((shared("woocommerce") / "products_write.json").read_text("utf-8"))
    by_id = {exchange["id"]: exchange for exchange in content["exchanges"]}
    by_id["price.negative"]["response"]["status"] = 400
    by_id["price.empty"]["response"]["body"]["surprise"] = 1
    by_id["price.restored"]["response"]["body"]["regular_price"] = "5.51"
    (tmp_path / "changed.json").write_text(json.dumps(content), "utf-8")
    agree, total, differences = replay.replay(tmp_path)
    assert [row["id"] for row in differences] == ["price.negative", "price.empty", "price.restored"]
    assert agree == total - 3


def _recorded_deliveries() -> list[tuple[dict[str, str], bytes]]:
    content = json.loads((shared("woocommerce") / "webhook_deliveries.json").read_text("utf-8"))
    found = []
    for delivery in content["deliveries"]:
        request = delivery["request"]
        if delivery["signed"]:
            parts = request.get("body_parts", [request.get("body")])
            text = "".join(p["repeat"] * p["times"] if isinstance(p, dict) else p for p in parts)
            found.append((request["headers"], text.encode()))
    assert found
    return found


def test_recorded_deliveries_carry_the_signature_made_here() -> None:
    """connectors 7.2: base64 HMAC-SHA256 of the raw body."""
    for headers, body in _recorded_deliveries():
        assert signature("recorded-test-secret-1", body) == headers["X-WC-Webhook-Signature"]


def test_recorded_bodies_are_written_here_byte_for_byte() -> None:
    """Slashes and all but ASCII are escaped as the shop's PHP does."""
    for _, body in _recorded_deliveries():
        assert php_json(json.loads(body)) == body
