"""Mail of workflows by SMTP: connecting, the node emailSend, and the outcome of messages."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from steward.connectors.base.settings import BadSettings
from steward.connectors.smtp.connector import SmtpConnector
from steward.model.change import Outcome
from steward.model.refusals import NotConnected, ValidationFailed
from steward.model.run import Mode, RunStatus
from tests.connectors.conformance.test_every_connector import BUILT
from tests.fake_clock import FakeClock
from tests.imports.exports import automated, chain, code, node
from tests.imports.responses.workflows import output_items
from tests.outbound.mail_server import PASSWORD, USER, MailScript, mail_server
from tests.runs.shop import HOST, Shop
from tests.services.running import findings_of, mail_of, shop_beside

CONNECTOR = BUILT["smtp"]
assert isinstance(CONNECTOR, SmtpConnector)
SENDER = "Northwind Tea <shop@shop.example>"
QUIET = {"appendAttribution": False}
MAIL = {
    "fromEmail": "Tea Shop <somebody@else.example>",
    "toEmail": "={{ $json.email }}",
    "subject": "=Order {{ $json.id }}",
    "emailFormat": "both",
    "text": "=Thank you for {{ $json.id }}",
    "html": "=<p>Thank you for {{ $json.id }}</p>",
    "options": {
        **QUIET,
        "ccEmail": "c@shop.example",
        "bccEmail": "b@shop.example",
        "replyTo": "r@shop.example",
    },
}  # fmt: skip
TWO = code("Items", "return [1, 2].map(id => ({json: {id, email: `jane${id}@customer.example`}}))")
on_one_engine = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@asynccontextmanager
async def mailing(
    database_url: str, clock: FakeClock, folder: Path, script: MailScript, **options: Any
) -> AsyncIterator[tuple[Shop, Mapping[str, Any]]]:
    """Opens a service beside a mail server and yields it with the settings of an account there."""
    async with mail_server(script, **options) as port:
        hosts = f"{HOST},127.0.0.1:{port}"
        async with shop_beside(database_url, clock, folder, STEWARD_ALLOW_PRIVATE_HOSTS=hosts) as shop:
            yield (
                shop,
                {"host": "127.0.0.1", "port": port, "security": "starttls", "sender": SENDER},
            )


async def test_messages_are_sent_once_each_as_the_accounts_sender(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Sends each item's message once to its own address after approval, and nothing in a test run."""
    script = MailScript()
    async with mailing(database_url, clock, tmp_path, script, signs_in=True) as (shop, form):
        account = await shop.connect("smtp", {**form, "user": USER, "password": PASSWORD})
        more = {"accounts": {"Mail": {"integration_id": account.integration_id}}}
        read = node("Read", "set", 3.4, {
            "assignments": {"assignments": [
                {"id": "1", "name": "id", "type": "string", "value": "={{ $json.messageId }}"},
                {"id": "2", "name": "to", "type": "string", "value": "={{ $json.accepted[0] }}"},
            ]}, "options": {},
        })  # fmt: skip
        steps = TWO, node("Mail", "emailSend", 2.1, MAIL), read
        automation = await automated(shop, chain(*steps), **more)
        tried = await shop.run_and_drain(automation, Mode.TEST)
        assert tried.status is RunStatus.SUCCEEDED, tried
        run = await shop.waiting(automation)
        assert script.received == []
        [change, _] = await shop.changes(run)
        assert [(field.label, field.after) for field in change.proposal.fields[:2]] == [
            ("To", "jane1@customer.example"),
            ("Cc", "c@shop.example"),
        ]
        await shop.approve(run)
        ended = await shop.until_settled(run)
        assert ended.status is RunStatus.SUCCEEDED, ended
        items = await output_items(shop, run, "Read")
    assert [item["to"] for item in items] == ["jane1@customer.example", "jane2@customer.example"]
    assert [received.recipients for received in script.received] == [
        [f"jane{number}@customer.example", "c@shop.example", "b@shop.example"] for number in (1, 2)
    ]
    message = script.received[0].message
    assert script.received[0].sender == "shop@shop.example"
    assert message["From"] == "Tea Shop <shop@shop.example>"
    assert (message["Subject"], message["Reply-To"]) == ("Order 1", "r@shop.example")
    assert message["Message-ID"] == items[0]["id"]
    assert [part.get_content().strip() for part in message.iter_parts()] == [
        "Thank you for 1",
        "<p>Thank you for 1</p>",
    ]
    assert set(script.sign_ins) == {"PLAIN"}


@on_one_engine
async def test_files_of_the_item_go_with_the_message(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Attaches the files that the step names in its order, and fails an item that lacks one."""
    script = MailScript()
    steps = (
        code("Items", "return [{json: {id: 1, email: 'jane@customer.example'}, binary: {"
             "one: {data: 'c2t1Cg==', mimeType: 'text/csv', fileName: 'stock.csv'},"
             "two: {data: 'aGk=', mimeType: 'text/plain', fileName: 'hi.txt'}}}]"),
        node("Mail", "emailSend", 2.1, {**MAIL, "options": {**MAIL["options"], "attachments": "two, one"}}),
        code("Back", "return $('Items').all()"),
        node("Again", "emailSend", 1, {
            "toEmail": "j@x.example", "subject": "S", "text": "T", "attachments": "three", "options": {},
        }, onError="continueRegularOutput"),
    )  # fmt: skip
    async with mailing(database_url, clock, tmp_path, script) as (shop, form):
        account = await shop.connect("smtp", form)
        named = {"integration_id": account.integration_id}
        more = {"accounts": {"Mail": named, "Again": named}, "send_mode": "send"}
        run = await shop.until_settled(await shop.run_and_drain(await automated(shop, chain(*steps), **more)))
        assert run.status is RunStatus.SUCCEEDED, run
        [failed] = await output_items(shop, run, "Again")
    assert "no file “three”" in str(failed["error"])
    [received] = script.received
    files = [(part.get_filename(), part.get_content()) for part in received.message.iter_attachments()]
    assert files == [("hi.txt", "hi"), ("stock.csv", "sku\n")]


@on_one_engine
async def test_a_greylisted_message_is_sent_later_and_a_refused_one_fails(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Retries a greylisted message later in the run, and fails a message refused with 5xx."""
    script = MailScript(replies=["451 4.7.1 Greylisted", "250 Ok", "554 5.7.1 No"])
    async with mailing(database_url, clock, tmp_path, script) as (shop, form):
        account = await shop.connect("smtp", form)
        more = {"accounts": {"Mail": {"integration_id": account.integration_id}}, "send_mode": "send"}
        record = code("Items", "return [{json: {id: 1, email: 'jane@customer.example'}}]")
        automation = await automated(shop, chain(record, node("Mail", "emailSend", 2.1, MAIL)), **more)
        run = await shop.until_settled(await shop.run_and_drain(automation))
        assert run.status is RunStatus.SUCCEEDED, run
        assert len(script.received) == 2
        run = await shop.until_settled(await shop.run_and_drain(automation))
        [change] = await shop.changes(run)
    assert (run.status, change.outcome) == (RunStatus.FAILED, Outcome.FAILED)
    assert "554" in str(change.message)


@on_one_engine
async def test_a_message_cut_after_its_content_is_never_sent_again(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Leaves a message unknown when the connection breaks after its content, and never sends it again."""
    script = MailScript(end="cut")
    async with mailing(database_url, clock, tmp_path, script) as (shop, form):
        account = await shop.connect("smtp", form)
        more = {"accounts": {"Mail": {"integration_id": account.integration_id}}, "send_mode": "send"}
        record = code("Items", "return [{json: {id: 1, email: 'jane@customer.example'}}]")
        automation = await automated(shop, chain(record, node("Mail", "emailSend", 2.1, MAIL)), **more)
        run = await shop.until_settled(await shop.run_and_drain(automation))
        [change] = await shop.changes(run)
        await shop.pass_time(hours=2)
    assert change.outcome is Outcome.UNKNOWN
    assert len(script.received) == 1


@on_one_engine
async def test_an_account_is_checked_by_signing_in_and_sends_nothing(
    database_url: str, clock: FakeClock, tmp_path: Path
) -> None:
    """Signs in to check an account and names a wrong password; an unreachable server is not connected."""
    script = MailScript()
    async with mailing(database_url, clock, tmp_path, script, signs_in=True) as (shop, form):
        with pytest.raises(ValidationFailed) as refused:
            await shop.connect("smtp", {**form, "user": USER, "password": "wrong word"})
        assert set(refused.value.errors) == {"settings.password"}
        good = await shop.connect("smtp", {**form, "user": USER, "password": PASSWORD})
        assert good.account_label == "shop@shop.example"
        with pytest.raises(NotConnected):
            await shop.connect("smtp", {**form, "host": HOST.partition(":")[0], "port": int(HOST[-5:])})
    assert script.received == []


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"host": ""}, "host"),
        ({"host": "127.0.0.1"}, "host"),
        ({"host": "mail.example/x"}, "host"),
        ({"port": 22}, "port"),
        ({"port": "many"}, "host"),
        ({"security": "none"}, "security"),
        ({"sender": "shop"}, "sender"),
        ({"sender": "a@x.example, b@x.example"}, "sender"),
        ({"sender": "shop@x.example\r\nBcc: evil@x.example"}, "sender"),
        ({"user": "shop"}, "password"),
        ({"password": "word"}, "password"),
        ({"color": "red"}, "color"),
    ],
)
def test_a_form_that_cannot_work_is_refused_by_field(form: dict[str, Any], field: str) -> None:
    """Names the invalid field of the settings."""
    good = {"host": "mail.example", "sender": SENDER}
    with pytest.raises(BadSettings) as refused:
        CONNECTOR.settings({**good, **form})
    assert set(refused.value.errors) == {field}


def test_usual_ports_are_taken_where_the_form_names_none() -> None:
    """Uses port 465 for TLS, and STARTTLS for port 587."""
    form = {"host": "Mail.Example", "sender": SENDER}
    assert CONNECTOR.settings(form).plain["address"] == "smtps://mail.example:465"
    assert CONNECTOR.settings({**form, "port": 587}).plain["address"] == "smtp://mail.example:587"
    assert CONNECTOR.settings({**form, "security": "starttls"}).plain["address"] == "smtp://mail.example:587"


@pytest.mark.parametrize(
    ("version", "parameters", "level", "words"),
    [
        (2.1, {**MAIL, "operation": "sendAndWait"}, "error", "waits for an answer"),
        (2.1, {**MAIL, "options": {**QUIET, "brandNew": 1}}, "error", "“brandNew”"),
        (2, {**MAIL, "options": {}}, "note", "line about itself"),
        (2.1, {**MAIL, "options": {**QUIET, "allowUnauthorizedCerts": True}}, "warning", "certificate"),
        (2.1, {**MAIL, "toEmail": ""}, "warning", "whom it writes to"),
        (
            2.1,
            {**MAIL, "emailFormat": "html", "html": "", "message": "Hi"},
            "warning",
            "an empty one is sent",
        ),
        (2, {**MAIL, "emailFormat": "text", "text": ""}, "warning", "an empty one"),
    ],
)
def test_differences_from_n8n_make_findings(
    version: float, parameters: dict[str, Any], level: str, words: str
) -> None:
    """Reports each difference from n8n at import with its level and what to do."""
    assert [
        outcome for outcome, message in findings_of("emailSend", version, parameters) if words in message
    ] == [level]


def test_an_ordinary_message_has_one_note_on_its_sender() -> None:
    """Notes that the account's sender replaces the file's, and finds nothing else."""
    [(level, words)] = findings_of("emailSend", 2.1, MAIL)
    assert level == "note"
    assert "sender of the account" in words


@pytest.mark.parametrize(
    ("version", "parameters", "bodies"),
    [
        (1, {"text": "Hi", "html": ""}, ("Hi", None)),
        (1, {"text": "", "html": "<p>Hi</p>"}, (None, "<p>Hi</p>")),
        (1, {"text": "Hi", "html": "<p>Hi</p>"}, ("Hi", "<p>Hi</p>")),
        (2, {"text": "Hi", "html": "<p>Hi</p>"}, ("Hi", None)),
        (2, {"emailFormat": "html", "text": "Hi", "html": "<p>Hi</p>"}, (None, "<p>Hi</p>")),
        (2.1, {"html": "<p>Hi</p>"}, (None, "<p>Hi</p>")),
        (2.1, {"emailFormat": "both", "text": "Hi", "html": "<p>Hi</p>"}, ("Hi", "<p>Hi</p>")),
        (2.1, {"emailFormat": "text", "text": "Hi"}, ("Hi", None)),
    ],
)
def test_the_format_decides_which_bodies_go(
    version: float, parameters: dict[str, Any], bodies: tuple[str | None, str | None]
) -> None:
    """Chooses plain and HTML bodies by the format, with each version's default."""
    command = mail_of("emailSend", version, {"toEmail": "a@x.example", **parameters})
    assert (command.text, command.html) == bodies
