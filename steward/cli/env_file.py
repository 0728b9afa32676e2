"""`--json` and `--env-file`, which may stand anywhere in a command line, and the file's variables.

It imports nothing of the service, since the quick check reads settings too.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_FILE = "_FILE"


class UnreadableEnvFile(ValueError):
    """Raised if an environment file cannot be read; the message names the file and the line."""


class MissingPath(ValueError):
    """Raised if `--env-file` stands at the end of a command line."""


def without_shared(argv: Sequence[str]) -> tuple[list[str], str | None]:
    """Removes `--json` and `--env-file PATH` from anywhere in the arguments; returns the path too.

    Raises MissingPath.
    """
    other_arguments: list[str] = []
    env_file = None
    words = iter(argv)
    for word in words:
        if word == "--json":
            continue
        if word == "--env-file":
            env_file = next(words, None)
            if env_file is None:
                raise MissingPath("--env-file needs a path.")
        elif word.startswith("--env-file="):
            env_file = word.partition("=")[2]
        else:
            other_arguments.append(word)
    return other_arguments, env_file


def read_env_file(path: Path) -> dict[str, str]:
    """Returns the variables in a file of NAME=value lines; ignores `#` lines and strips quotes.

    Raises UnreadableEnvFile.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableEnvFile(f"{path} must be a readable text file.") from error
    variables: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = re.fullmatch(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*", line)
        if match is None or match[1] in variables:
            raise UnreadableEnvFile(f"{path}, line {number}: must be NAME=value, each name once.")
        value = match[2]
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        variables[match[1]] = value
    return variables


def merged(environ: Mapping[str, str], file: str | Path | None) -> dict[str, str]:
    """Returns the variables of the environment and the file; for each setting the environment precedes.

    A variable and its `_FILE` form are one setting. Raises UnreadableEnvFile.
    """
    if file is None:
        return dict(environ)
    other_forms = {name.removesuffix(_FILE) if name.endswith(_FILE) else name + _FILE for name in environ}
    in_file = read_env_file(Path(file))
    return {**{name: text for name, text in in_file.items() if name not in other_forms}, **environ}
