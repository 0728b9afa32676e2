"""Writes `docs/settings.md`, the table of all settings."""

from dataclasses import fields

from steward.config import Settings, spec_of, variable


def settings_page() -> str:
    """Returns the text of `docs/settings.md`."""
    lines = [
        "# Settings",
        "",
        "Environment variables, or a file of them given as `--env-file PATH`. A variable that begins with",
        "`STEWARD_` and is not in this table stops the start, and so does a value out of its range. Secrets",
        "(marked S) may be given as `NAME_FILE` holding the path of a file instead. Made by `make docs`.",
        "",
        "| Variable | Value | Default | Meaning |",
        "| - | - | - | - |",
    ]
    for setting in fields(Settings):
        spec = spec_of(setting)
        default = "unset" if spec.default is None else f"`{spec.default}`" if spec.default else "empty"
        mark = " (S)" if spec.secret else ""
        lines.append(f"| {variable(setting.name)}{mark} | {spec.form.words} | {default} | {spec.meaning} |")
    return "\n".join(lines) + "\n"
