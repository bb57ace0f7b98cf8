"""Where a bundle's parts are looked for and where it lands, unless somebody says otherwise; nothing is read here."""

from pathlib import Path

SUBMISSIONS = Path("submissions")
TEAM, DESCRIPTION = "team.toml", "description.md"


def default_file(name: str) -> Path | None:
    """The file called `name` here or in submissions/, if there is one."""
    return next((there for there in (Path(name), SUBMISSIONS / name) if there.is_file()), None)


def bundle_path(out: Path | None, name: str) -> Path:
    """Where the zip called `name` goes: `out` itself where that is a .zip, else below it, else below submissions/."""
    return out if out is not None and out.suffix == ".zip" else (out or SUBMISSIONS) / name
