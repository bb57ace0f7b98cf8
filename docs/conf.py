"""The configuration of the documentation site. `make docs` builds it."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from sphinx.application import Sphinx  # noqa: E402

from harness import __version__  # noqa: E402

project = "extraction-harness"
author = "The extraction-harness authors"
project_copyright = author
version = release = __version__

extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns = ["**/.ipynb_checkpoints"]
html_theme = "furo"
html_title = "harness"
html_copy_source = False

myst_heading_anchors = 3
# The notebooks are stored with their outputs, which `make pictures` writes.
nb_execution_mode = "off"

# Dashes of options are no typographic dashes.
smartquotes = False
# Without the prompts of a console, and without its output.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True


def _add_toctree(_app: Sphinx, name: str, source: list[str]) -> None:
    """Append the table of contents to the first page, whose text in the clone lists the pages by reader instead."""
    if name == "index":
        source[0] += "\n" + (HERE / "toctree.txt").read_text(encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect the hooks of the site."""
    app.connect("source-read", _add_toctree)
