"""The options of `harness bundle create` that the form of the TUI has too."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import WithJsonSchema

from harness.core.options import Options, option
from harness.core.parameters import NEW_PATH
from harness.submit.team import DESCRIPTION, SUBMISSIONS, TEAM


class PackageOptions(Options):
    """The files that are packaged with a run, and the place of the zip."""

    heading: ClassVar[str] = "Options"

    team: Path | None = option(
        None,
        metavar="TOML",
        unset=f"{TEAM}, here or in {SUBMISSIONS}/",
        description="The team: a TOML file with a table [[members]] for each person.",
    )
    description: Path | None = option(
        None,
        metavar="MD",
        unset=f"{DESCRIPTION}, here or in {SUBMISSIONS}/",
        description="What is new about the attack, as Markdown; the run's plots and tables are added.",
    )
    out: Annotated[Path, WithJsonSchema({"type": "string", "format": NEW_PATH})] | None = option(
        None,
        short="-o",
        metavar="DIR|ZIP",
        unset=f"{SUBMISSIONS}/",
        description="Where to write the zip: a directory, or a name that ends in .zip.",
    )
    redact: bool = option(False, description="Replace suffixes in the description with their length and hash.")
