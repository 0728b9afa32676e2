"""Debian's exim4 and dovecot, unpacked by `make mail-servers` and run as nobody from a folder of a test."""

import asyncio
import imaplib
import os
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import cast

from tests.outbound.test_transport import certificate
from tests.processes.ports import free_port
from tests.processes.running import eventually

ROOT = Path(__file__).parents[2] / ".cache" / "mail-servers"
NAME, USER, PASSWORD = "localhost", "steward", "correct horse"
_NOBODY = 65534
_PROGRAM = ROOT / "usr/sbin/exim4"
_EXIM = """
primary_hostname = {name}
exim_path = {exim}
daemon_smtp_ports = {port}
local_interfaces = 127.0.0.1
spool_directory = {folder}/spool
log_file_path = {folder}/log/%slog
pid_file_path = {folder}/exim.pid
keep_environment = LD_LIBRARY_PATH : LD_PRELOAD : NSS_WRAPPER_PASSWD : NSS_WRAPPER_GROUP
never_users =
deliver_drop_privilege = true
tls_advertise_hosts = *
tls_certificate = {folder}/{name}.pem
tls_privatekey = {folder}/{name}.key
auth_advertise_hosts = ${{if eq{{$tls_in_cipher}}{{}}{{}}{{*}}}}
acl_smtp_rcpt = check
acl_smtp_data = accept
domainlist local_domains = shop.example
begin acl
check:
  deny !authenticated = *
  deny !domains = +local_domains
  accept
begin routers
local:
  driver = accept
  domains = +local_domains
  local_parts = ada : eve
  transport = boxes
begin transports
boxes:
  driver = appendfile
  maildir_format
  create_directory
  directory = {folder}/boxes/$local_part_data
  user = nobody
begin retry
* * F,1h,1m
begin authenticators
plain:
  driver = plaintext
  public_name = PLAIN
  server_condition = ${{if and{{{{eq{{$auth2}}{{{user}}}}}{{eq{{$auth3}}{{{password}}}}}}}}}
  server_set_id = $auth2
"""


def missing() -> str | None:
    """Why the servers cannot run here; None where they can."""
    programs = ("usr/sbin/exim4", "usr/lib/dovecot/imap", "usr/lib")
    if sys.platform != "linux" or not all((ROOT / program).exists() for program in programs):
        return "SKIPPED LOUDLY: exim4 and dovecot are not there; `make mail-servers` unpacks them on Debian."
    if os.geteuid() != 0:
        return "SKIPPED LOUDLY: the mail servers are started as nobody, which root alone can do."
    return None


@dataclass
class DebianMail:
    """A running exim4 and the mailboxes it fills; `authority` is the file of its certificate."""

    folder: Path
    port: int
    authority: str

    @contextmanager
    def mailbox(self, name: str) -> Iterator[imaplib.IMAP4]:
        """Opens the mailbox of a local part by dovecot's own IMAP process."""
        box = self.folder / "boxes" / name
        imap = ROOT / "usr/lib/dovecot/imap"
        command = f"setpriv --reuid={_NOBODY} --regid={_NOBODY} --clear-groups {imap} -O"
        client = imaplib.IMAP4_stream(
            f"env {_words(_environ(self.folder))} {command} -o mail_location=maildir:{box}"
        )
        try:
            client.select("INBOX")
            yield client
        finally:
            client.logout()

    async def fetched(self, name: str, count: int) -> list[EmailMessage]:
        """The mails of a mailbox by IMAP, once there are so many."""
        new = self.folder / "boxes" / name / "new"

        async def have_arrived() -> bool:
            return new.exists() and len(list(new.iterdir())) >= count

        await eventually(have_arrived, within=30)
        with self.mailbox(name) as client:
            _, [numbers] = client.search(None, "ALL")
            mails = []
            for number in numbers.split():
                _, [parts, *_] = client.fetch(number.decode(), "(RFC822)")
                content = cast("tuple[bytes, bytes]", parts)[1]
                mails.append(cast("EmailMessage", message_from_bytes(content, policy=default)))
        return mails


def _words(environ: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in environ.items())


def _environ(folder: Path) -> dict[str, str]:
    """What makes unpacked programs find their libraries, and their user without an entry in /etc/passwd."""
    libraries = next((ROOT / "usr/lib").glob("*-linux-gnu"))
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "USER": "nobody",
        "LD_LIBRARY_PATH": f"{libraries}:{ROOT / 'usr/lib/dovecot'}",
        "LD_PRELOAD": str(libraries / "libnss_wrapper.so"),
        "NSS_WRAPPER_PASSWD": str(folder / "passwd"),
        "NSS_WRAPPER_GROUP": str(folder / "group"),
    }


def _lay_out(folder: Path, port: int) -> str:
    _, authority = certificate(folder, NAME)
    (folder / "passwd").write_text("".join(f"{name}:x:65534:65534::/:/bin/false\n" for name in _USERS))
    (folder / "group").write_text("".join(f"{name}:x:65534:\n" for name in (*_USERS, "nogroup")))
    values: dict[str, object] = {
        "name": NAME,
        "port": port,
        "folder": folder,
        "user": USER,
        "password": PASSWORD,
        "exim": _PROGRAM,
    }
    (folder / "exim.conf").write_text(_EXIM.format(**values))
    for name in ("spool", "log", "boxes"):
        (folder / name).mkdir()
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, _NOBODY, _NOBODY)
    return authority


_USERS = ("nobody", "Debian-exim", "root")


@asynccontextmanager
async def debian_mail(folder: Path) -> AsyncIterator[DebianMail]:
    """exim4 on loopback with STARTTLS and a sign-in; it takes mail for shop.example and relays none."""
    port = free_port()
    authority = _lay_out(folder, port)
    daemon = await asyncio.create_subprocess_exec(
        *(str(_PROGRAM), "-bdf", "-q1m", "-C", str(folder / "exim.conf")),
        env=_environ(folder),
        user=_NOBODY,
        group=_NOBODY,
        extra_groups=[],
        cwd=folder,
    )

    async def listens() -> bool:
        assert daemon.returncode is None, (folder / "log").rglob("*")
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await eventually(listens, within=30)
        yield DebianMail(folder, port, authority)
    finally:
        daemon.terminate()
        await daemon.wait()
