"""Steward: automations of merchants, run on their schedule and changed only with approval."""

__version__ = "0.1.0"  # the one place it stands; pyproject.toml reads it
