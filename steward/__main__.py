"""The entry point of `python -m steward` and the `steward` command."""

import gc
import os
import sys

from steward.cli import quick


def main() -> None:
    """Runs the command line and exits with its code."""
    words = sys.argv[1:]
    if quick.is_quick(words):
        sys.exit(quick.main(words, os.environ))
    # What is imported stays: to look through it for garbage would take a sixth of the start.
    gc.set_threshold(10_000, 20, 20)
    # Imported late: the quick check, which runs twice a minute, and the version need none of it.
    from steward.cli.run import main as run_command_line

    sys.exit(run_command_line())


if __name__ == "__main__":
    main()
