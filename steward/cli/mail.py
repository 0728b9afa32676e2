"""mail test: sends a test mail through the service's mail server and reports the outcome."""

from typing import Any

from steward.cli.command import CliArgs, Command, CommandFailed, Facts, option
from steward.config import Settings
from steward.model.ids import new_id
from steward.outbound.mail import MailTransport
from steward.outbound.mail_message import InvalidMail, Mailbox, MailContent, compose, mailboxes_of
from steward.outbound.mail_server import MailResult, operators_server
from steward.telemetry.log import Log
from steward.telemetry.redact import SecretRegister

NOT_SET_UP = (
    "No mail server is set. Give STEWARD_SMTP_URL (smtp://USER:PASSWORD@HOST:PORT) and STEWARD_MAIL_FROM;"
    " until then people are notified only in the web app."
)


def _transport_of(settings: Settings, clock: Any) -> MailTransport:
    """Returns a client for the configured mail server, without logging."""
    register = SecretRegister()
    if settings.smtp_url is not None and settings.smtp_url.password:
        register.add(settings.smtp_url.password)
    log = Log(lambda line: None, clock, register)
    return MailTransport(clock, register, log, private_hosts=frozenset(settings.allow_private_hosts))


async def check_server(settings: Settings, clock: Any) -> None:
    """Connects to the operator's mail server and signs in, without sending a message. Raises CallError."""
    assert settings.smtp_url is not None, "without an address there is no server"
    transport = _transport_of(settings, clock)
    try:
        await transport.check(operators_server(*settings.smtp_url))
    finally:
        await transport.aclose()


async def test(args: CliArgs) -> Facts:
    """Sends one mail; fails with the reason if the server did not accept it."""
    settings = args.settings
    if settings.smtp_url is None or settings.mail_from is None:
        raise CommandFailed("not_configured", NOT_SET_UP)
    content = MailContent(
        sender=mailboxes_of(settings.mail_from)[0],
        to=[Mailbox(args.options.to)],
        subject="Test mail from Steward",
        message_id=new_id(args.now()),
        date=args.now(),
        text=f"Mail from Steward reaches you.\n\n{settings.web_origin}\n",
        headers={"Auto-Submitted": "auto-generated"},
    )
    try:
        message = compose(content)
    except InvalidMail as error:
        raise CommandFailed("invalid_address", str(error)) from None
    transport = _transport_of(settings, args.clock)
    try:
        outcome = await transport.send(operators_server(*settings.smtp_url), message)
    finally:
        await transport.aclose()
    facts = {"result": str(outcome.result), "code": outcome.code, "reply": outcome.reply}
    if outcome.result is not MailResult.ACCEPTED:
        words = "The mail server did not accept it." if outcome.error is None else outcome.error.message
        raise CommandFailed("mail_not_accepted", words, facts)
    return facts


COMMANDS = [
    Command(
        "mail test",
        test,
        (option("--to", required=True, metavar="ADDRESS", help="where it goes"),),
    )
]
