"""The entry point of `python -m steward` and the `steward` command."""

import os
import sys

from steward.cli import quick


def main() -> None:
    """Runs the command line and exits with its code."""
    words = sys.argv[1:]
    if quick.is_quick(words):
        sys.exit(quick.main(words, os.environ))
    # Imported late: the quick check, which runs twice a minute, and the version need none of it.
    from steward.cli.run import main as run_command_line

    sys.exit(run_command_line())


if __name__ == "__main__":
    main()
