"""`python -m steward` and the `steward` command."""

import sys

from steward.cli.run import main as run_command_line


def main() -> None:
    """Runs the command line and ends the process with its exit code."""
    sys.exit(run_command_line())


if __name__ == "__main__":
    main()
