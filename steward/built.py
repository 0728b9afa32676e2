"""The list of built files and their SHA-256, `built.sha256`.

Every wheel contains it, and `steward doctor` checks it.
It imports nothing from the service, since the wheel's build loads it by path. `python -m steward.built`
writes the list.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("static", "sandbox/built", "connectors/shopify/built")
LIST = "built.sha256"
# Built files that the service never reads: licences are in the wheel's metadata, tests read the manifest.
NOT_READ = ("static/manifest.json", "static/licenses", "sandbox/built/licenses")


def write_list(package: Path) -> None:
    """Writes the list of the files built into `package`, in the format of sha256sum."""
    lines = [f"{_sha256(path)}  {path.relative_to(package).as_posix()}\n" for path in _built_files(package)]
    _replace_file(package / LIST, "".join(lines))


def _replace_file(target: Path, text: str) -> None:
    """Replaces a file atomically, so that readers such as `steward doctor` see the old or the new text."""
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    unfinished.write_text(text, "utf-8")
    unfinished.replace(target)


def differences(package: Path) -> list[str]:
    """Returns the names of files that are missing, changed or not in the list.

    Raises FileNotFoundError without a list, ValueError for a line that cannot be read.
    """
    listed: dict[str, str] = {}
    for line in (package / LIST).read_text("utf-8").splitlines():
        digest, separator, name = line.partition("  ")
        if not separator:
            raise ValueError(f"{LIST} has a line that is not a hash and a name: {line!r}.")
        listed[name] = digest
    present = {path.relative_to(package).as_posix(): path for path in _built_files(package)}
    changed = {name for name, path in present.items() if name in listed and _sha256(path) != listed[name]}
    return sorted(changed | (listed.keys() ^ present.keys()))


def _built_files(package: Path) -> Iterator[Path]:
    """Yields the built files that the service reads."""
    not_read = {package / name for name in NOT_READ}
    for folder in FOLDERS:
        for path in sorted((package / folder).rglob("*")):
            if path.is_file() and not_read.isdisjoint((path, *path.parents)):
                yield path


def _sha256(path: Path) -> str:
    """Returns the hash of a file, or an empty text if it was removed in the meantime."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return ""


if __name__ == "__main__":
    write_list(Path(__file__).parent)
