"""Default locations of the team file, the description and the bundle. Nothing is read here."""

from pathlib import Path

SUBMISSIONS = Path("submissions")
TEAM, DESCRIPTION = "team.toml", "description.md"


def default_file(name: str) -> Path | None:
    """Return the file `name` in the current directory or in submissions/, or None."""
    return next((path for path in (Path(name), SUBMISSIONS / name) if path.is_file()), None)


def bundle_path(out: Path | None, name: str) -> Path:
    """Return the path of the zip `name`: `out` if it ends in .zip, otherwise inside `out` or submissions/."""
    return out if out is not None and out.suffix == ".zip" else (out or SUBMISSIONS) / name
