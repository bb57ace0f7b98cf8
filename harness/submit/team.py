"""team.toml: the people who submit."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError

from harness.core.errors import HarnessError
from harness.core.untrusted_files import first_fault, read_bounded_toml
from harness.submit.manifest import BundleModel

_MAX_BYTES = 1 << 16
_Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\n\r\x00]*$")
]
_Address = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=r"^[^@\s]+@[^@\s]+$")]


class Member(BundleModel):
    """A member of the team."""

    name: _Line
    affiliation: _Line | None = None
    email: _Address | None = None

    @property
    def name_and_affiliation(self) -> str:
        return self.name if self.affiliation is None else f"{self.name}, {self.affiliation}"


class Team(BundleModel):
    """A team: its members, and optionally its name and contact."""

    name: _Line | None = None
    contact: _Line | None = None
    members: tuple[Member, ...] = Field(min_length=1, max_length=100)

    @property
    def title(self) -> str:
        """The team's name, or the names of its members."""
        return self.name or ", ".join(member.name for member in self.members)


def load_team(path: Path) -> Team:
    """Load a team file. Raises HarnessError, with file and field, if it is not valid."""
    if not path.exists():
        raise HarnessError(f"{path}: no such file. A team file has a table [[members]] with a name for each member.")
    try:
        return Team.model_validate(read_bounded_toml(path, limit=_MAX_BYTES))
    except ValidationError as error:
        raise HarnessError(f"{path}: {first_fault(error)}.") from None
