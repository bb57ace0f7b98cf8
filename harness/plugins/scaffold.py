"""Write a new attack, which runs unchanged."""

from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.files import file_errors, write_export
from harness.core.text import shorten
from harness.plugins.declarations import NAME

_TEMPLATE = Path(__file__).with_name("new_attack.txt")


def new_attack(name: str, folder: Path) -> Path:
    """Write a new attack into `folder`, which is created if it is missing. Return the path of the file.

    Raises HarnessError if the name is not valid, the file exists, or the directory is not writable.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{shorten(name)!r} is not a valid name. Use lower-case letters, digits and underscores, a letter first."
        )
    path = folder / f"{name}.py"
    with file_errors(path, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise HarnessError(f"{path} already exists. Choose another name or another --dir.")
        stem = "".join(part.capitalize() for part in name.split("_"))
        write_export(path, _TEMPLATE.read_text(encoding="utf-8").format(stem=stem, name=name))
    return path
