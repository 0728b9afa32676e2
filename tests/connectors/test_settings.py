"""Connection settings: what is accepted, refused by field and kept secret.

See docs/design/api/connections.md#connecting.
"""

from typing import Any

import pytest

from steward.connectors import ALL, build
from steward.connectors.base.settings import BadSettings
from steward.model.change import Recovery
from steward.telemetry.redact import Secret
from tests.connectors.fake_connections import HOST, Connection, FakePlatformsClient
from tests.connectors.options import connector_options

GOOD = {"url": "https://shop.example", "consumer_key": "ck_1", "consumer_secret": "cs_1"}
HOOK = "https://prod-1.westeurope.logic.azure.com/workflows/abc/triggers/manual?sig=abcdefgh"


def errors_of(world: FakePlatformsClient, kind: str, settings: dict[str, Any]) -> set[str]:
    """Returns the fields that are refused."""
    with pytest.raises(BadSettings) as refused:
        world.connectors[kind].settings(settings)
    return set(refused.value.errors)


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://shop.example", "https://shop.example"),
        ("https://shop.example/", "https://shop.example"),
        (" https://Shop.Example/blog/ ", "https://shop.example/blog"),
        ("https://shop.example/wp-json/wc/v3", "https://shop.example"),
        (f"http://{HOST}/", f"http://{HOST}"),
        ("https://shop.example:443/", "https://shop.example"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example"),
    ],
)
def test_the_address_of_a_shop_is_brought_to_one_form(
    world: FakePlatformsClient, url: str, base: str
) -> None:
    """Normalises a shop's address and seals its keys. See docs/design/api/connections.md#connecting."""
    settings = world.connectors["woocommerce"].settings({**GOOD, "url": url})
    assert settings.plain == {"url": base}
    assert settings.domain == settings.subject == base.partition("://")[2]
    assert all(isinstance(value, Secret) for value in settings.sealed.values())
    assert "cs_1" not in repr(settings)


@pytest.mark.parametrize(
    "url",
    [
        "http://shop.example",
        "https://user:word@shop.example",
        "https://shop.example/?a=1",
        "https://127.0.0.1",
        "https://2130706433/",
        "https://shop.example:8443",
        "shop.example",
        "",
        "http://127.0.0.1:8501",
        "https://shop.example/../x",
        "https://shop.example/#x",
        "javascript:alert(1)",
        7,
        None,
    ],
)
def test_an_address_that_may_not_be_called_is_refused_on_its_field(
    world: FakePlatformsClient, url: object
) -> None:
    """Refuses an address that must not be called, on its field.

    See docs/design/api/connections.md#connecting and docs/design/connectors.md#addresses.
    """
    assert errors_of(world, "woocommerce", {**GOOD, "url": url}) == {"url"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127。0。0。1", "[::1]", "0x7f.1", "8.8.8.8", "ⓞ⒈"])
def test_the_words_at_a_field_are_sentences(world: FakePlatformsClient, host: str) -> None:
    """Starts each sentence of a refusal with a capital letter."""
    for kind, field, settings in (
        ("woocommerce", "url", GOOD),
        ("cloud_s3", "endpoint_url", {}),
        ("teams", "webhook_url", {}),
    ):
        with pytest.raises(BadSettings) as refused:
            world.connectors[kind].settings({**settings, field: f"https://{host}/a"})
        for words in refused.value.errors[field]:
            assert all(sentence[0].isupper() for sentence in words.split(". ")), words


def test_missing_wrong_and_unknown_fields_are_named(world: FakePlatformsClient) -> None:
    """Names missing, invalid and unknown fields. See docs/design/api/connections.md#connecting."""
    assert errors_of(world, "woocommerce", {}) == set(GOOD)
    assert errors_of(world, "woocommerce", {**GOOD, "extra": "x"}) == {"extra"}
    for wrong in ("a:b", "a b", "ä", "", "x" * 501, 5):
        assert errors_of(world, "woocommerce", {**GOOD, "consumer_key": wrong}) == {"consumer_key"}
    assert errors_of(world, "spreadsheet", {}) == {"service_account", "spreadsheet_id"}
    assert errors_of(world, "teams", {}) == {"webhook_url"}


def test_a_service_account_is_its_key_file_and_the_key_stays_secret(world: FakePlatformsClient) -> None:
    """Reads the key file of a service account, seals its private key and refuses a broken file.

    See docs/design/api/connections.md#connecting and docs/design/connectors.md#google-sheets.
    """
    account = world.world.described()["spreadsheet"]["service_account"]
    form = {"service_account": account, "spreadsheet_id": "sheet-prices"}
    settings = world.connectors["spreadsheet"].settings(form)
    assert settings.plain["client_email"] == account["client_email"]
    assert settings.subject == "sheet-prices"
    assert account["private_key"] not in repr(settings)
    for wrong in ({}, {**account, "private_key": "x"}, {**account, "client_email": "x"}, "text", None):
        assert errors_of(world, "spreadsheet", {**form, "service_account": wrong}) == {"service_account"}
    for sheet in ("", "a/b", "x" * 129, "../x", 5):
        assert errors_of(world, "spreadsheet", {**form, "spreadsheet_id": sheet}) == {"spreadsheet_id"}


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/workflows/a?sig=b",
        "http://prod-1.logic.azure.com/workflows/a?sig=b",
        "https://evillogic.azure.com/a?sig=b",
        "https://x.logic.azure.com.evil.example/a?sig=b",
        "https://x.logic.azure.com/?sig=b",
        "https://x.logic.azure.com/workflows/a",
        "https://x.logic.azure.com:8443/a?sig=b",
        "https://outlook.webhook.office.com/webhookb2/a?sig=b",
        "http://127.0.0.1:8501/a?sig=b",
        "",
        None,
    ],
)
def test_only_a_workflows_address_is_taken_for_teams(world: FakePlatformsClient, url: object) -> None:
    """Accepts only the https address of a Power Automate workflow for Teams.

    See docs/design/connectors.md#hosts-and-secrets and docs/design/connectors.md#teams.
    """
    assert errors_of(world, "teams", {"webhook_url": url}) == {"webhook_url"}


def test_a_retired_address_is_refused_with_the_remedy(world: FakePlatformsClient) -> None:
    """Refuses a retired Office address and says to create a workflow. See docs/design/connectors.md#teams."""
    with pytest.raises(BadSettings, match="workflow"):
        world.connectors["teams"].settings({"webhook_url": "https://a.webhook.office.com/webhookb2/x?sig=y"})


async def test_the_address_of_teams_is_a_secret_and_its_check_sends_nothing(
    world: FakePlatformsClient, teams: Connection
) -> None:
    """Seals the Teams address and sends nothing when it checks the connection.

    See docs/design/api/connections.md#connecting.
    """
    settings = world.connectors["teams"].settings({"webhook_url": HOOK})
    assert "abcdefgh" not in repr(settings)
    assert settings.plain["host"] == "prod-1.westeurope.logic.azure.com"
    assert (await teams.check()).ok
    assert world.lines == []


def test_every_connector_is_in_the_list_and_says_how_it_recovers(world: FakePlatformsClient) -> None:
    """Gives each write operation its recovery class: read back, found by a mark, or sent at most once.

    See docs/design/connectors.md#rules.
    """
    assert len(ALL) == len(world.connectors)
    classes = {
        name: op.recovery for connector in world.connectors.values() for name, op in connector.writes.items()
    }
    assert classes["teams.post"] is classes["sheet.append_rows"] is Recovery.AT_MOST_ONCE
    assert classes["order.add_note"] is Recovery.MARKED
    own_writes = world.connectors["woocommerce"].writes
    others = {op.recovery for name, op in own_writes.items() if name != "order.add_note"}
    assert others == {Recovery.READABLE}
    assert world.connectors["cloud_s3"].writes == {}


def test_times_are_the_connectors_own_unless_they_are_bounded() -> None:
    """Gives reads 90 s in all, more when the operator sets over 60 s, unless times are bounded."""

    def made(read_s: float, bounded: bool) -> dict[str, tuple[float, float]]:
        built = build(connector_options(read_s=read_s, bounded=bounded))
        times = {name: connector.facts.timeouts for name, connector in built.items()}
        kinds = ("woocommerce", "spreadsheet", "teams")
        return {name: (times[name].read_s, times[name].write_s) for name in kinds}

    for setting_s in (20, 60):
        assert made(setting_s, False) == {"woocommerce": (90, 60), "spreadsheet": (90, 30), "teams": (90, 30)}
    assert made(61, False) == {"woocommerce": (91, 60), "spreadsheet": (91, 30), "teams": (91, 30)}
    assert set(made(2, True).values()) == {(2, 2)}
