"""A finding of an import at a step, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class FindingLevel(StrEnum):
    """The severity of a finding."""

    ERROR = "error"  # cannot run
    WARNING = "warning"  # runs, but differs
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding of an import; `step` is None when it concerns the whole file."""

    step: str | None
    level: FindingLevel
    code: str
    message: str

    def wire(self) -> dict[str, str | None]:
        """Returns the finding in its stored and API form."""
        return {"step": self.step, "level": str(self.level), "code": self.code, "message": self.message}

    @classmethod
    def from_wire(cls, wire: dict[str, str | None]) -> "Finding":
        """Returns the finding from its stored form."""
        return cls(wire["step"], FindingLevel(str(wire["level"])), str(wire["code"]), str(wire["message"]))
