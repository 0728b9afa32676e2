"""Messages: what is in them, and that no text adds a header or a recipient.

See docs/design/mail.md#message.
"""

import email
import os
import random
from dataclasses import replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import compat32, default
from email.utils import getaddresses
from typing import cast

import pytest

from steward.outbound.mail_message import (
    MAX_MESSAGE_BYTES,
    MAX_RECIPIENTS,
    InvalidMail,
    MailAttachment,
    Mailbox,
    MailContent,
    clean_name,
    compose,
    mail_address,
    mailboxes_of,
    one_line,
)

HOSTILE_MAILS = int(os.environ.get("HOSTILE_MAILS", "2000"))  # `make fuzz` takes 10,000
WHEN = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
CONTENT = MailContent(Mailbox("shop@x.example"), [Mailbox("jane@y.example")], "Hello", "m-1", WHEN, text="Hi")
EVIL = "evil@z.example"
PARTS = [
    "\r\n", "\n", "\r", "\0", f"Bcc: {EVIL}", f"\r\nBcc: {EVIL}\r\n", "\u202e", "\u2028", "\x85", "\x0b",
    "\x0c", "\x1c", "\x1d", ",", ";", f"<{EVIL}>", f", {EVIL}", '"', "\\", "=?utf-8?q?a?=", "?=",
    "=?utf-8?b?DQpCY2M6IGV2aWxAei5leGFtcGxl?=", "=?utf-8?q?=0D=0ABcc:_evil@z.example?=", " ", "ü", "日本語",
    "a" * 200, "x" * 10_000, "@", ":", "(c)", "'", "\ud800", "<script>alert(1)</script>", "\t", ".", "🫖",
]  # fmt: skip
HEADERS = [
    "from", "to", "cc", "reply-to", "subject", "date", "message-id", "content-type", "mime-version",
]  # fmt: skip


def parsed(content: bytes) -> EmailMessage:
    """The message as a mail program reads it."""
    return cast("EmailMessage", email.message_from_bytes(content, policy=default))


def test_text_and_html_are_alternatives_with_every_header_once() -> None:
    """Plain text first; blind recipients are in the envelope alone."""
    content = replace(
        CONTENT,
        sender=Mailbox("shop@x.example", "Müller, Tee & Söhne"),
        subject="Grüße aus dem Laden",
        html="<p>Hi</p>",
        cc=[Mailbox("c@y.example", "Doe, Jane")],
        bcc=[Mailbox("b@y.example")],
        reply_to=[Mailbox("r@x.example")],
        headers={"Auto-Submitted": "auto-generated"},
    )
    composed = compose(content)
    message = parsed(composed.content)
    assert (composed.sender, composed.recipients) == (
        "shop@x.example",
        ("jane@y.example", "c@y.example", "b@y.example"),
    )
    assert message["Subject"] == "Grüße aus dem Laden"
    assert message["From"].addresses[0].display_name == "Müller Tee & Söhne"
    assert message["Cc"].addresses[0].display_name == "Doe Jane"
    assert (message["Message-ID"], message["Auto-Submitted"]) == ("<m-1@x.example>", "auto-generated")
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert b"b@y.example" not in composed.content


def test_the_same_content_makes_the_same_headers() -> None:
    """A message that is sent again carries the same id."""
    assert compose(CONTENT).content == compose(CONTENT).content


def _hostile(chance: random.Random, number: int) -> MailContent:
    texts = ["".join(chance.choices(PARTS, k=chance.randrange(8))) for _ in range(6)]
    subject, *names = texts
    files = [MailAttachment(names[0], names[1], b"1,2")] if number % 10 == 0 else []
    return MailContent(
        Mailbox("shop@x.example", names[0]),
        [Mailbox("a@y.example", names[1]), Mailbox("b@y.example", names[2])],
        one_line(subject) if number % 2 else subject,
        "m-1",
        WHEN,
        text=names[3][:300],
        html=names[4][:300] if files else None,
        cc=[Mailbox("c@y.example", names[3])],
        reply_to=[Mailbox("r@y.example", names[4])],
        attachments=files,
    )


def test_hostile_texts_add_no_header_and_no_recipient() -> None:
    """Subjects, names, file names and bodies, read by two parsers and by mail programs' simplest rule."""
    chance, composed_count = random.Random(18), 0
    for number in range(HOSTILE_MAILS):
        content = _hostile(chance, number)
        try:
            composed = compose(content)
        except InvalidMail:
            assert any(mark in content.subject for mark in "\r\n\0")
            continue
        composed_count += 1
        head = composed.content.partition(b"\r\n\r\n")[0].decode("ascii")
        lines = head.replace("\r\n ", " ").split("\r\n")
        by_name = {line.partition(":")[0].lower(): line.partition(":")[2] for line in lines}
        further = {"content-transfer-encoding"} & set(by_name)
        assert sorted(by_name) == sorted([*HEADERS, *further])
        assert len(lines) == len(by_name)
        read = email.message_from_bytes(composed.content, policy=compat32)
        assert [name.lower() for name in read] == list(by_name)
        if number % 10 == 0:
            message = parsed(composed.content)
            lists = [message[name].addresses for name in ("From", "To", "Cc", "Reply-To")]
            addresses = [each_address.addr_spec for addresses_ in lists for each_address in addresses_]
        else:
            lists_of_text = [by_name[name] for name in ("from", "to", "cc", "reply-to")]
            addresses = [address for _, address in getaddresses(lists_of_text)]
        assert addresses == ["shop@x.example", *composed.recipients, "r@y.example"]
        assert composed.recipients == ("a@y.example", "b@y.example", "c@y.example")
        assert max(map(len, composed.content.split(b"\r\n"))) <= 998
        assert not composed.content.replace(b"\r\n", b"").count(b"\n")
    assert composed_count > HOSTILE_MAILS * 6 // 10


def test_bodies_arrive_as_they_were() -> None:
    """Line ends aside; lone surrogates become question marks, NUL goes."""
    for text in ("ü日本語🫖\nplain", "a" * 5_000, "From the start\n.\n..", "\x85\x0b=20", "<b>&amp;</b>"):
        message = parsed(compose(replace(CONTENT, text=text, html=text)).content)
        bodies = [
            part.get_content().replace("\r\n", "\n").removesuffix("\n") for part in message.iter_parts()
        ]
        assert bodies == [text, text]
    assert parsed(compose(replace(CONTENT, text="a\0b\ud800")).content).get_content().strip() == "ab?"


@pytest.mark.parametrize(
    ("text", "mailboxes"),
    [
        ("a@x.example", [Mailbox("a@x.example")]),
        (" a@x.example , b@y.example;c@z.example, ", ["a@x.example", "b@y.example", "c@z.example"]),
        ("Jane Doe <jane@x.example>", [Mailbox("jane@x.example", "Jane Doe")]),
        (
            '"Doe, Jane" <jane@x.example>, bob@x.example',
            [Mailbox("jane@x.example", "Doe Jane"), Mailbox("bob@x.example")],
        ),
        ("<a@x.example>", [Mailbox("a@x.example")]),
        ("a@Bücher.example", [Mailbox("a@xn--bcher-kva.example")]),
        ("", []),
    ],
)
def test_lists_of_addresses_are_read_as_people_write_them(text: str, mailboxes: list[Mailbox | str]) -> None:
    """Commas and semicolons, with names or without."""
    assert mailboxes_of(text) == [
        Mailbox(mailbox) if isinstance(mailbox, str) else mailbox for mailbox in mailboxes
    ]


@pytest.mark.parametrize(
    "text",
    [
        "jane", "jane@", "@x.example", "a b@x.example", "a@x..example", "a@-x.example", "a@x.example>",
        "a@@b.example",
        "a@x.example\r\nRCPT TO:<evil@z.example>", "a@x.example\0", '"a b"@x.example', "ü@x.example",
        "<a@x.example", "a@x.example NOTIFY=NEVER", "Jane <jane>", ".a@x.example", "a..b@x.example",
        "a" * 65 + "@x.example", "a@" + "x" * 64 + ".example", "a@" + "x." * 125 + "example",
    ],
)  # fmt: skip
def test_an_invalid_mail_address_is_refused_before_sending(text: str) -> None:
    """Nothing of it reaches a server."""
    with pytest.raises(InvalidMail):
        mailboxes_of(text)


def test_an_address_has_254_characters_at_most() -> None:
    """At the limit and one past it."""
    domain = ".".join(["d" * 60] * 4)
    assert len(mail_address("a" * (253 - len(domain)) + "@" + domain)) == 254
    with pytest.raises(InvalidMail):
        mail_address("a" * (254 - len(domain)) + "@" + domain)


def test_a_message_has_a_hundred_recipients_and_25_mib_at_most() -> None:
    """At the limit and one past it; an address named twice gets it once."""
    many = [Mailbox(f"a{number}@x.example") for number in range(MAX_RECIPIENTS)]
    assert len(compose(replace(CONTENT, to=[*many, many[0]])).recipients) == MAX_RECIPIENTS
    with pytest.raises(InvalidMail, match="100 addresses"):
        compose(replace(CONTENT, to=many, cc=[Mailbox("b@x.example")]))
    with pytest.raises(InvalidMail, match="no recipient"):
        compose(replace(CONTENT, to=[]))
    base = len(compose(replace(CONTENT, text="")).content)
    rows = "x" * 75 + "\n"
    count = (MAX_MESSAGE_BYTES - base) // 77
    assert len(compose(replace(CONTENT, text=rows * count)).content) <= MAX_MESSAGE_BYTES
    with pytest.raises(InvalidMail, match="25 MiB"):
        compose(replace(CONTENT, text=rows * (count + 1)))


def test_headers_with_line_breaks_and_composed_headers_are_refused() -> None:
    """A header is never set twice."""
    for name, value in (
        ("X-A", "a\r\nBcc: b"), ("X-A", "ü"), ("Bcc", EVIL), ("subject", "x"), ("Content-Type", "text/html"),
        ("X A", "a"), ("X-A:", "a"), ("", "a"),
    ):  # fmt: skip
        with pytest.raises(InvalidMail):
            compose(replace(CONTENT, headers={name: value}))
    for bad in (replace(CONTENT, subject="a\nb"), replace(CONTENT, message_id="a b")):
        with pytest.raises(InvalidMail):
            compose(bad)
    assert b"In-Reply-To: <" + b"a" * 300 in compose(
        replace(CONTENT, headers={"In-Reply-To": "<" + "a" * 300 + "@x.example>"})
    ).content.replace(b"\r\n ", b"")


def test_names_and_subjects_are_one_line_without_directions() -> None:
    """A name is cut at 100 characters."""
    assert clean_name("Jane\r\nBcc: x\u202e <evil>") == "Jane Bcc x evil"
    assert len(clean_name("ü" * 101)) == 100
    assert one_line("Two\r\nlines\u2028three") == "Two  lines three"
