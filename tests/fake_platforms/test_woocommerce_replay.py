"""Tests that the fake shop answers as the recorded real one did. See docs/design/connectors.md#tests."""

import json
from pathlib import Path

import pytest

from steward.fake_platforms.deliveries import php_json, signature
from tests.case_data import case_data
from tests.fake_platforms import connector_view, replay


def test_every_recorded_exchange_and_delivery_agrees() -> None:
    """Every recorded response agrees with the fake shop and with the connector's view of it.

    See docs/design/connectors.md#tests.
    """
    rows = replay.replay(case_data("woocommerce"))
    assert [row for row in rows if row["differences"]] == []
    assert len(rows) >= 327
    others = [row["id"] for row in rows if row["left_out"] and "coupon" not in row["id"]]
    assert others == ["auth.basic_over_http", "site.maintenance", "site.database_down_write"]


def test_a_replay_reports_differences_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports each altered exchange and delivery, and goes on after a recording that it cannot read."""
    content = json.loads((case_data("woocommerce") / "products_write.json").read_text("utf-8"))
    by_id = {exchange["id"]: exchange for exchange in content["exchanges"]}
    by_id["price.negative"]["response"]["status"] = 400
    by_id["price.empty"]["response"]["body"]["surprise"] = 1
    by_id["price.restored"]["response"]["body"]["regular_price"] = "5.51"
    by_id["product.bad_status"]["response"] = {"status": 200, "headers": {}, "body": [1, {"id": None}]}
    (tmp_path / "changed.json").write_text(json.dumps(content), "utf-8")
    deliveries = json.loads((case_data("woocommerce") / "webhook_deliveries.json").read_text("utf-8"))
    deliveries["secret"] += "x"
    (tmp_path / "deliveries.json").write_text(json.dumps(deliveries), "utf-8")
    rows = replay.replay(tmp_path)
    changed = [row["id"] for row in rows if row["differences"] and row["file"] == "changed.json"]
    assert changed == ["price.negative", "price.empty", "price.restored", "product.bad_status"]
    signed = sum(row["signed"] for row in deliveries["deliveries"])
    assert sum(bool(row["differences"]) for row in rows if row["file"] == "deliveries.json") == signed
    monkeypatch.setattr("sys.argv", ["replay", str(tmp_path)])
    replay.main()
    assert capsys.readouterr().out.splitlines()[-1] == f"{len(rows) - 4 - signed} of {len(rows)} agree"


def test_an_outcome_that_differs_from_the_response_is_reported() -> None:
    """Judges altered outcomes by the rules of connector_view.py, which are not the connector's own."""
    content = json.loads((case_data("woocommerce") / "products_batch.json").read_text("utf-8"))
    mixed = next(exchange for exchange in content["exchanges"] if exchange["id"] == "batch.mixed")
    mixed["response"]["body"]["update"][0]["regular_price"] = "1.00"
    parts = list(connector_view.parts_of(mixed))
    right = connector_view.right_outcomes(parts, mixed["response"]["body"]["update"])
    assert right == ["unknown", "conflict", "unknown", "refused"]


def _recorded_deliveries() -> list[tuple[dict[str, str], bytes]]:
    content = json.loads((case_data("woocommerce") / "webhook_deliveries.json").read_text("utf-8"))
    deliveries = []
    for delivery in content["deliveries"]:
        request = delivery["request"]
        if delivery["signed"]:
            parts = request.get("body_parts", [request.get("body")])
            text = "".join(p["repeat"] * p["times"] if isinstance(p, dict) else p for p in parts)
            deliveries.append((request["headers"], text.encode()))
    assert deliveries
    return deliveries


def test_recorded_deliveries_carry_the_signature_made_here() -> None:
    """Computes the recorded signature: base64 HMAC-SHA256 of the raw body.

    See docs/design/connectors.md#woocommerce.
    """
    for headers, body in _recorded_deliveries():
        assert signature("recorded-test-secret-1", body) == headers["X-WC-Webhook-Signature"]


def test_recorded_bodies_are_written_here_byte_for_byte() -> None:
    """Writes each recorded body byte for byte, with slashes and other characters escaped as PHP does."""
    for _, body in _recorded_deliveries():
        assert php_json(json.loads(body)) == body


def test_objects_known_only_from_refusals_are_in_the_replayed_shop(tmp_path: Path) -> None:
    """Adds accounts that only a refusal mentions, and compares an HTML page as a page."""
    content = json.loads((case_data("woocommerce") / "customers.json").read_text("utf-8"))
    by_id = {exchange["id"]: exchange for exchange in content["exchanges"]}
    create = by_id["customer.create"]
    refused = json.loads(json.dumps(create))
    refused["request"]["body"]["email"] = "owner@example.com"
    code = "registration-error-email-exists"
    body = {"code": code, "message": "An account is already registered.", "data": {"status": 400}}
    headers = {name: create["response"]["headers"][name] for name in ("content-type", "link", "allow")}
    refused |= {"id": "taken", "response": {"status": 400, "headers": headers, "bytes": 9, "body": body}}
    page = {"status": 404, "headers": {"content-type": "text/html"}, "bytes": 6, "body_text": "<html>"}
    elsewhere = {**by_id["customer.get"]["request"], "path": "/shop/wp-json/wc/v3/customers/2"}
    lost = {**by_id["customer.get"], "id": "lost", "request": elsewhere, "response": page}
    content["exchanges"] = [refused, lost]
    (tmp_path / "refused.json").write_text(json.dumps(content), "utf-8")
    assert [row["differences"] for row in replay.replay(tmp_path)] == [[], []]
    lost["response"] = by_id["customer.unknown"]["response"]
    content["exchanges"] = [refused, lost]
    (tmp_path / "refused.json").write_text(json.dumps(content), "utf-8")
    assert [bool(row["differences"]) for row in replay.replay(tmp_path)] == [False, True]
