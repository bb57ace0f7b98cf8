"""`make pictures`: draw every screen and page from real records of the demo, record a first run, run the notebooks.

`python -m tests.pictures NAME…` draws some of them. With `--work DIR` the records are kept in DIR and used again.
"""

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.functional.machine import ROOT, homes
from tests.pictures import PICTURES
from tests.pictures.notebooks import NOTEBOOKS, write_outputs
from tests.pictures.pages import PAGES, draw_page
from tests.pictures.recording import RECORDING, record_first_run
from tests.pictures.records import prepare, prepare_entities
from tests.pictures.screens import SCREENS, draw_screen

NAMES = (*SCREENS, *PAGES, *NOTEBOOKS, RECORDING)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*NAMES, []], metavar="NAME", help="pictures to draw (default: all)"
    )
    parser.add_argument("--work", type=Path, help="directory whose records are used again, and written if it is empty")
    options = parser.parse_args()
    names = options.names or NAMES
    PICTURES.mkdir(exist_ok=True)
    with _folder(options.work) as folder:
        os.environ |= homes(folder) | {"PYTHONPATH": str(ROOT), "HARNESS_CONFIG": str(folder)}
        os.chdir(folder)
        if "audit-entities" in names and not (folder / "entities").exists():
            prepare_entities(folder)
        if not (folder / "leaderboard.html").exists() and not set(names) <= {RECORDING, *NOTEBOOKS}:
            prepare(folder)
        for name in names:
            if name in SCREENS:
                draw_screen(name, folder)
            elif name in PAGES:
                draw_page(name, folder)
            elif name in NOTEBOOKS:
                write_outputs(name, folder)
            else:
                record_first_run(folder)


@contextlib.contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    """Yield the directory `work`, or one that is deleted at the end."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="harness-pictures-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    main()
