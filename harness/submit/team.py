"""The files that a team writes for its bundles: team.toml and description.md."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from harness.core.errors import HarnessError, missing_path
from harness.core.inputs import read_bounded_text, read_bounded_toml, validate_fields
from harness.core.text import pluralize
from harness.submit.manifest import BundleModel

_MAX_TEAM_BYTES = 1 << 16
_Line = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\n\r\x00]*$")
]
_Address = Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=r"^[^@\s]+@[^@\s]+$")]
SUBMISSIONS = Path("submissions")
TEAM, DESCRIPTION = "team.toml", "description.md"
BEGINNINGS = {
    TEAM: '# name = "the name of the team"\n\n[[members]]\nname = ""\n# affiliation = ""\n# email = ""\n',
    DESCRIPTION: "<!-- What is new about the attack, in two to five pages of Markdown. -->\n\n# \n",
}
"""The text of a new file, by its name. Neither passes the checklist as it is, or without a remark."""
_MAX_DESCRIPTION_BYTES = 1 << 16  # typesetting a megabyte would take a minute
_MIN_WORDS = 400


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
        raise missing_path(path, advice="A team file has a table [[members]] with a name for each member.")
    return validate_fields(Team, read_bounded_toml(path, limit=_MAX_TEAM_BYTES), path)


def description_length(path: Path) -> tuple[str, bool]:
    """Return a clause with the number of words outside tables, quotes and code, and True if they are too few.

    Two pages of text have 400 words or more. A word has a letter. Raises HarnessError if the file is empty or cannot be
    read.
    """
    from markdown_it import MarkdownIt  # Only packaging and verification need it.

    markdown = read_bounded_text(path, limit=_MAX_DESCRIPTION_BYTES)
    if not markdown.strip():
        raise HarnessError(f"{path}: the file is empty. Describe the attack in it.")
    depth = words = 0
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type.startswith(("table_", "blockquote_")):
            depth += token.nesting
        elif token.type == "inline" and not depth:
            words += sum(any(map(str.isalpha, word)) for word in token.content.split())
    sentence = f"the description has {pluralize(words, 'word')}"
    if words >= _MIN_WORDS:
        return sentence, False
    return f"{sentence} outside tables and examples; two to five pages have at least {_MIN_WORDS}", True


def default_file(name: str) -> Path | None:
    """Return the file `name` in the current directory or in submissions/, or None."""
    return next((path for path in (Path(name), SUBMISSIONS / name) if path.is_file()), None)


def bundle_path(out: Path | None, name: str) -> Path:
    """Return the path of the zip `name`: `out` if it ends in .zip, otherwise inside `out` or submissions/."""
    return out if out is not None and out.suffix == ".zip" else (out or SUBMISSIONS) / name
