"""Tests mail messages read in the sandbox: parts, encodings and hostile messages."""

import base64
from typing import Any

import pytest

from steward.sandbox.files.mails import MAX_PARTS
from steward.steps.workflow.expressions.evaluate import Evaluator
from steward.steps.workflow.expressions.views import FileFailed
from tests.shared_sandbox import shared_sandbox


@pytest.fixture
def evaluator() -> Evaluator:
    """Provides an evaluator over the children that tests share."""
    return Evaluator(shared_sandbox(), "org", "run")


async def read(evaluator: Evaluator, content: bytes) -> Any:
    """Returns a message as the sandbox parses it."""
    return await evaluator.read_file("mail", content, {})


async def test_parts_become_text_html_and_files(evaluator: Evaluator) -> None:
    """Makes text of HTML where a message has no text, and a file of each part with a name."""
    content = (
        b'Subject: =?iso-8859-1?q?Gr=FC=DFe?=\r\nFrom: "Doe,\r\n Jane" <jane@a.example>\r\n'
        b"References: <1@a> <2@a>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        b"--b\r\nContent-Type: text/html; charset=koi8-r\r\n\r\n<p>\xc1<script>x</script></p><p>b</p>\r\n"
        b"--b\r\nContent-Type: text/plain\r\nContent-Disposition: inline; filename=a.txt\r\n\r\n"
        b"file\r\n--b--\r\n"
    )
    result = await read(evaluator, content)
    fields = result["fields"]
    assert (fields["subject"], fields["references"]) == ("Grüße", ["<1@a>", "<2@a>"])
    assert fields["from"]["value"] == [{"address": "jane@a.example", "name": "Doe, Jane"}]
    assert (fields["text"], fields["textAsHtml"]) == ("а\nb", "<p>а<br/>b</p>")
    assert result["files"] == [["a.txt", "text/plain", base64.b64encode(b"file").decode()]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"Subject: =?x-nope?b?QQ==?=\r\nContent-Type: text/plain; charset=x-nope\r\nDate: x\r\n\r\n\xff",
        b"Content-Type: text/plain; charset=idna\r\n\r\nhi",
        b"Content-Type: a/b\r\nContent-Disposition: attachment; filename*=x-nope''%C1\r\n\r\nx",
        b"Content-Type: text/plain\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nbegin 6 a\n#0V%T\n`\n",
        b"Content-Type: multipart/mixed\r\n\r\nno boundary",
        b"Date: Fri, 99 May 2026 10:00:00 +9999\r\nTo: undisclosed:;\r\n\r\nhi",
    ],
)
async def test_a_damaged_message_is_read_as_far_as_possible(evaluator: Evaluator, content: bytes) -> None:
    """Reads a message with unknown encodings or wrong dates as far as possible, without ending the child."""
    assert set(await read(evaluator, content)) == {"fields", "files"}


async def test_a_message_of_too_many_parts_is_refused(evaluator: Evaluator) -> None:
    """Reads 1000 parts including the message itself, and refuses one more with a plain message."""
    part = b"--b\r\nContent-Type: a/b; name=x\r\n\r\nx\r\n"
    head = b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    result = await read(evaluator, head + part * (MAX_PARTS - 1) + b"--b--\r\n")
    assert len(result["files"]) == MAX_PARTS - 1
    with pytest.raises(FileFailed, match="more than 1000 parts"):
        await read(evaluator, head + part * MAX_PARTS + b"--b--\r\n")
