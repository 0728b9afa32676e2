"""`steward mail test` and the check `mail`: the mail server's reply in words."""

from argparse import Namespace
from collections.abc import Mapping

import pytest

from steward.cli import mail
from steward.cli.command import CliArgs, CommandFailed
from steward.cli.doctor import doctor
from steward.config import read
from tests.outbound.mail_server import MailScript, mail_server

TO = "ada@tea.example"


def _args(database_url: str, port: int | None, to: str = TO) -> CliArgs:
    environ = {"STEWARD_ENV": "test", "STEWARD_DATABASE_URL": database_url}
    if port is not None:
        environ |= {
            "STEWARD_SMTP_URL": f"smtp://127.0.0.1:{port}",
            "STEWARD_MAIL_FROM": "Steward <steward@tea.example>",
            "STEWARD_ALLOW_PRIVATE_HOSTS": f"127.0.0.1:{port}",
        }
    return CliArgs(Namespace(to=to, full=False), lambda: read(environ), lambda facts: None)


async def _mail_check(args: CliArgs) -> Mapping[str, object]:
    """Returns what `doctor` says of mail; other checks may fail on the machine of the test."""
    try:
        facts: Mapping[str, object] | None = await doctor.doctor(args)
    except CommandFailed as failed:
        facts = failed.facts
    checks = None if facts is None else facts["checks"]
    assert isinstance(checks, list)
    [outcome] = [check for check in checks if check["name"] == "mail"]
    return {"ok": outcome["ok"], "message": outcome["message"]}


async def test_a_test_mail_arrives(sqlite_url: str) -> None:
    """Sends only to that address and reports the server's reply."""
    script = MailScript()
    async with mail_server(script) as port:
        facts = await mail.test(_args(sqlite_url, port))
        assert (await _mail_check(_args(sqlite_url, port)))["ok"]
    assert (facts["result"], facts["code"]) == ("accepted", 250)
    [received] = script.received  # the check sent nothing
    assert received.recipients == [TO]


async def test_a_refused_test_mail_says_why(sqlite_url: str) -> None:
    """Fails with the server's code when the mail is refused."""
    async with mail_server(MailScript(recipients={TO: "550 5.1.1 No such user"})) as port:
        with pytest.raises(CommandFailed, match="code 550") as caught:
            await mail.test(_args(sqlite_url, port))
    assert caught.value.code == "mail_not_accepted"


async def test_a_server_that_is_away_fails_the_check(sqlite_url: str) -> None:
    """Fails the check when the mail server cannot be reached."""
    async with mail_server(MailScript()) as port:
        pass
    record = await _mail_check(_args(sqlite_url, port))
    assert not record["ok"]
    assert "The mail server cannot be used" in str(record["message"])


async def test_without_settings_both_say_what_to_set(sqlite_url: str) -> None:
    """Names the setting to set; the check passes, since mail is optional."""
    with pytest.raises(CommandFailed, match="STEWARD_SMTP_URL") as caught:
        await mail.test(_args(sqlite_url, None))
    assert caught.value.code == "not_configured"
    record = await _mail_check(_args(sqlite_url, None))
    assert record["ok"]
    assert "STEWARD_SMTP_URL" in str(record["message"])


@pytest.mark.parametrize("to", ["nobody", "a@b, c@d", "a@b\r\nBcc: c@d.example"])
async def test_the_address_has_to_be_one(sqlite_url: str, to: str) -> None:
    """Refuses an invalid address and sends nothing."""
    script = MailScript()
    async with mail_server(script) as port:
        with pytest.raises(CommandFailed) as caught:
            await mail.test(_args(sqlite_url, port, to))
    assert caught.value.code == "invalid_address"
    assert script.received == []
