"""Runs the system's commands."""

import subprocess


def run(command: str) -> str:
    """Runs a command and returns what it printed."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout
