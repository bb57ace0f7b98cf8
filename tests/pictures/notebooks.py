"""The notebooks of the docs with their outputs, so that a reader of the clone sees what each cell gives."""

import hashlib
from pathlib import Path
from typing import Any

from tests.functional.machine import ROOT

NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))}
"""The notebook of each name."""
_TIMEOUT_SECONDS = 600


def executed(path: Path, folder: Path) -> Any:
    """Return the notebook in `path` after it has run in `folder`."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=_TIMEOUT_SECONDS, resources={"metadata": {"path": folder}}).execute()
    return notebook


def write_outputs(name: str, folder: Path) -> None:
    """Run the notebook `name` in `folder` and store it with its outputs and the hash of the code that gave them."""
    import nbformat

    notebook = executed(NOTEBOOKS[name], folder)
    for cell in notebook.cells:
        cell.metadata.clear()  # such as when it ran
        if cell.cell_type == "code":
            # Progress lines are meant for a person who waits.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {
        "kernelspec": notebook.metadata["kernelspec"],
        "language_info": {"name": "python"},
        "outputs_of_sha256": code_sha256(notebook),
    }
    nbformat.write(notebook, NOTEBOOKS[name])
    print(NOTEBOOKS[name])


def code_sha256(notebook: Any) -> str:
    """Return the hash of all code of a notebook."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256("\0".join(code).encode()).hexdigest()
