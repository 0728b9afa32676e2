"""Tests which values an import removes as secrets, and which it leaves."""

import json
import os
import time
from collections import Counter
from random import Random
from typing import Any

import pytest

from steward.imports.n8n.read import read_value
from steward.imports.n8n.secrets import without_secrets
from steward.imports.secrets.texts import secrets_in
from steward.imports.shopify_flow import secrets as flow_secrets
from steward.model.removed_secrets import MARKER, markers_in
from steward.steps.workflow import addresses
from steward.steps.workflow.step_types import ItemFailed
from tests.imports.planted import HARMLESS, planted, workflow

SECRETS, HARMLESS_VALUES = 500, int(os.environ.get("HARMLESS_VALUES", "3000"))


@pytest.mark.parametrize("seed", [1, 7, 2026])
def test_planted_secrets_are_removed(seed: int) -> None:
    """Removes at least 99 % of 500 secrets at 12 kinds of places from everything that is stored."""
    missed: Counter[str] = Counter()
    for secret in planted(seed, SECRETS):
        read = read_value(secret.workflow)
        stored = json.dumps(read.cleaned, ensure_ascii=False) + repr(read.plan) + repr(read.findings)
        missed[secret.kind] += secret.value in stored or json.dumps(secret.value)[1:-1] in stored
    assert missed.total() <= SECRETS // 100, missed


@pytest.mark.parametrize("seed", [7])
def test_harmless_values_stay(seed: int) -> None:
    """Removes at most 1 % of thousands of harmless values; `make fuzz` takes 10,000."""
    random, removed = Random(seed), Counter[str]()
    kinds = list(HARMLESS)
    for index in range(HARMLESS_VALUES):
        kind = kinds[index % len(kinds)]
        name, generator = HARMLESS[kind]
        value = generator(random)
        row = {"name": name, "value": value, "type": "string"}
        cleaned, _ = without_secrets(
            workflow({"assignments": {"assignments": [row]}, "other": {name: value}})
        )
        removed[kind] += cleaned["nodes"][1]["parameters"] != {
            "assignments": {"assignments": [row]},
            "other": {name: value},
        }
    assert removed.total() <= HARMLESS_VALUES // 100, removed


@pytest.mark.parametrize(
    ("value", "is_removed"),
    [
        *((value, True) for value in ("YOUR_BOT_TOKEN", "TU-BOT-TOKEN", "SUA_CHAVE_TOKEN", "VOTRE_TOKEN")),
        *((value, True) for value in ("COLE_SEU_TOKEN_AQUI", "PEGA-TOKEN-AQUÍ")),
        ("BOT-TOKEN", False),
    ],
)
def test_a_placeholder_counts_as_a_removed_key(value: str, is_removed: bool) -> None:
    """Removes placeholders for a key, in several languages; the mere name of a key stays."""
    row = {"name": "telegram_bot_token", "value": value, "type": "string"}
    cleaned, paths = without_secrets(workflow({"assignments": {"assignments": [row]}}))
    assert (bool(paths), value not in json.dumps(cleaned, ensure_ascii=False)) == (is_removed, is_removed)


def test_a_marker_says_which_value_was_removed() -> None:
    """Numbers each distinct value, wherever it occurs, and keeps the scheme before it."""
    first, second = "Zx81kqPw72mNb4Vc", "hunter2hunter2"
    rows = [{"name": "Authorization", "value": f"Bearer {first}"}, {"name": "X-Api-Key", "value": second}]
    url = f"https://api.example.com/v1?token={first}&page=2"
    cleaned, paths = without_secrets(workflow({"url": url, "headerParameters": {"parameters": rows}}))
    parameters = cleaned["nodes"][1]["parameters"]
    assert parameters["url"] == "https://api.example.com/v1?token=__removed_secret_1__&page=2"
    values = [row["value"] for row in parameters["headerParameters"]["parameters"]]
    assert values == ["Bearer __removed_secret_1__", "__removed_secret_2__"]
    assert markers_in(parameters) == {1, 2}
    assert paths == [
        "nodes.1.parameters.url",
        "nodes.1.parameters.headerParameters.parameters.0.value",
        "nodes.1.parameters.headerParameters.parameters.1.value",
    ]


def test_cleaning_an_export_twice_changes_nothing() -> None:
    """A second pass over a cleaned export changes nothing and finds nothing."""
    for secret in planted(11, SECRETS):
        cleaned, _ = without_secrets(secret.workflow)
        assert without_secrets(cleaned) == (cleaned, [])


def test_a_later_pass_gives_new_numbers() -> None:
    """Gives a new secret a number that no marker of the export has."""
    rows = [
        {"name": "X-Api-Key", "value": "__removed_secret_4__"},
        {"name": "token", "value": "hunter2hunter2"},
    ]
    cleaned, _ = without_secrets(workflow({"rows": rows}))
    assert [row["value"] for row in cleaned["nodes"][1]["parameters"]["rows"]] == [
        "__removed_secret_4__",
        "__removed_secret_5__",
    ]


@pytest.mark.parametrize(
    ("script", "cleaned"),
    [
        ("const key = 'name'; if (token === 'expired') token = `${a}`", None),
        ("const tokens = items.map(i => i.json.token); const max_tokens = 4096", None),
        ("const password = $json.password1; let secret = getSecret('a1')", None),
        ("const type = 'password'; fields = ['token', 'api_key']", None),
        (
            "const pem = `-----BEGIN RSA PRIVATE KEY-----\nMIIEow1\n-----END RSA PRIVATE KEY-----`",
            "const pem = `{}`",
        ),
        ("token = 'abc1' + \"def2\"", "token = '{}' + \"{}\""),
        ('body = "{\\"password\\": \\"hunter2x\\"}"', 'body = "{\\"password\\": \\"{}\\"}"'),
        ('key = """Ab3dE6gH9kLmN2pQ"""', 'key = """{}"""'),
        ("secret: 'correct horse battery staple'", "secret: '{}'"),
    ],
)
def test_secrets_assigned_in_scripts_are_removed(script: str, cleaned: str | None) -> None:
    """Removes assigned secrets with any quotes; names, comparisons and calls stay."""
    parameters = without_secrets(workflow({"jsCode": script}, "code"))[0]["nodes"][1]["parameters"]
    assert MARKER.sub("{}", parameters["jsCode"]) == (cleaned or script)


@pytest.mark.parametrize("length", [199, 200, 201, 5_000])
def test_a_long_key_is_removed_to_its_end(length: int) -> None:
    """Judges a word after a name by its first characters, and removes all of it."""
    key = "aB3".ljust(length, "x")
    assert secrets_in(f"The password: {key}. Use it.") == [(14, 14 + length)]


def test_many_names_in_one_word_take_linear_time() -> None:
    """Reads 20,000 names in one word, whose every name would read the rest: 1,800,000,000 characters."""
    assert secrets_in("password:" * 20_000) == []


def test_stored_credentials_lose_every_value() -> None:
    """Removes every value in the data of a credential; its id and name stay."""
    stored = {"smtp": {"id": "4", "name": "Mail", "data": {"host": "mail.example.com", "user": "shop"}}}
    cleaned = without_secrets(workflow({}, credentials=stored))[0]["nodes"][1]["credentials"]["smtp"]
    assert cleaned["id"] == "4"
    assert cleaned["name"] == "Mail"
    assert all(MARKER.fullmatch(value) for value in cleaned["data"].values())


def test_secrets_of_a_flow_become_markers() -> None:
    """Removes secrets from settings, headers and signature keys of a Shopify Flow export."""
    rows = [
        {"config_field_id": "headers", "value": json.dumps([["X-Api-Key", "hunter2hunter2"]])},
        {"config_field_id": "body", "value": "{{ order.id | hmac_sha256: 'hunter2hunter2' }}"},
        {"config_field_id": "url", "value": "https://hooks.example/?api_key=hunter2hunter2&a=1"},
    ]
    value = {"root": {"steps": [{"config_field_values": rows}], "links": []}}
    cleaned, locations = flow_secrets.without_secrets(value)
    assert "hunter2" not in json.dumps(cleaned)
    assert markers_in(json.dumps(cleaned)) == {1}
    assert locations == [(0, "headers"), (0, "body"), (0, "url")]


def test_a_marker_is_never_sent() -> None:
    """Leaves parameters and headers with a marker out of requests, and refuses an address with one."""
    marker = "__removed_secret_1__"
    url = f"https://api.example.com/v1?a=1&token={marker}&b=2"
    assert addresses.https_address(url) == "https://api.example.com/v1?a=1&b=2"
    assert addresses.https_address(f"https://api.example.com/?key={marker}") == "https://api.example.com/"
    assert addresses.with_query("https://a.example", {"key": marker, "n": 1}) == "https://a.example?n=1"
    assert addresses.sendable_headers({"Authorization": f"Bearer {marker}", "Accept": "*/*"}) == {
        "accept": "*/*"
    }
    with pytest.raises(ItemFailed, match="held a key"):
        addresses.https_address(f"https://hooks.example.com/{marker}")


def _large_texts() -> dict[str, Any]:
    size = 2_000_000
    return {
        "one name after another": "key=token&secret:" * (size // 17),
        "one long word": "token" * (size // 5),
        "quotes without an end": 'password: "' * (size // 11),
        "blanks": '"token"' + " " * size,
        "an image": "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUg3Ab+/" * (size // 27),
        "prose": "The key of this shop, and its secret word, is kept elsewhere. " * (size // 62),
        "script": "const total = items.map((item) => item.json.price * 2);\n" * (size // 57),
        "slashes": "secret='" + "\\" * size,
        "private keys": "-----BEGIN PRIVATE KEY-----" * (size // 27),
        "names alone": "token " * (size // 6),
        "names and words": "key=word secret: word " * (size // 21),
        "random runs": " ".join(str(Random(n).getrandbits(128)) for n in range(100)) * (size // 3_900),
    }


@pytest.mark.parametrize("kind", list(_large_texts()))
def test_two_megabytes_take_a_second_at_most(kind: str) -> None:
    """Reads 2 MB of hostile text in time that grows linearly; busy machines get 5 s of CPU time."""
    text = _large_texts()[kind]
    export = workflow({"jsCode": text}, "code")
    began = time.process_time()
    without_secrets(export)
    assert time.process_time() - began < 5


def test_many_small_values_take_a_second_at_most() -> None:
    """Reads 30,000 short values within 5 s of CPU time."""
    random = Random(1)
    rows = [
        {"name": f"apiKey{n}", "value": f"{random.random()}", "note": "a plain note"} for n in range(30_000)
    ]
    began = time.process_time()
    without_secrets(workflow({"rows": rows}))
    assert time.process_time() - began < 5
