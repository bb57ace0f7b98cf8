"""team.toml: who submits."""

import tomllib
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from harness.core.errors import HarnessError
from harness.core.text import shorten

_MAX_BYTES = 1 << 16
_Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\n\r\x00]*$")
]
_Address = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=r"^[^@\s]+@[^@\s]+$")]
_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "no team file has such a field",
    "string_too_short": "is empty",
    "string_too_long": "is longer than 200 characters",
    "string_type": "must be text",
    "too_short": "names nobody",
    "model_type": "must be a table",
    "tuple_type": "must be tables, written as [[members]]",
}


class Member(BaseModel):
    """One of the team."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Line
    affiliation: _Line | None = None
    email: _Address | None = None

    @property
    def line(self) -> str:
        """Name and affiliation."""
        return self.name if self.affiliation is None else f"{self.name}, {self.affiliation}"


class Byline(NamedTuple):
    """Who describes: the team, '' where it has no name, its members as `Name, Affiliation`, and where it is reached."""

    name: str
    members: tuple[str, ...]
    contact: str


class Team(BaseModel):
    """A team: its members, and what it calls itself and where it is reached, if it says so."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Line | None = None
    contact: _Line | None = None
    members: tuple[Member, ...] = Field(min_length=1, max_length=100)

    @property
    def byline(self) -> "Byline":
        """The team as a description's title names it."""
        return Byline(self.name or "", tuple(member.line for member in self.members), self.contact or "")

    @property
    def title(self) -> str:
        """The team's name, else its members'."""
        return self.name or ", ".join(member.name for member in self.members)


def load_team(path: Path) -> Team:
    """The team in the file at `path`. Raises HarnessError, naming file and field, when it is not well-formed."""
    try:
        if path.exists() and not path.is_file():
            raise HarnessError(f"{path}: a folder or a device, not a team file.")
        if path.stat().st_size > _MAX_BYTES:
            raise HarnessError(f"{path}: larger than any team file.")
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HarnessError(f"{path}: no such team file; it names [[members]], each with a name.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise HarnessError(f"{path}: not a TOML file ({shorten(str(error), 120)}).") from None
    try:
        return Team.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        is_address = fault["type"] == "string_pattern_mismatch" and where.endswith("email")
        words = "is no address" if is_address else _WORDS.get(fault["type"], fault["msg"])
        raise HarnessError(f"{path}: {where}: {words}.") from None
