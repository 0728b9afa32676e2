"""The version of this release, in the one place it stands; pyproject.toml reads it here."""

__version__ = "0.1.0"
