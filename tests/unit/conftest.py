"""The directories that the harness uses in unit tests."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the harness's directories to new ones inside `tmp_path`, and return `tmp_path`."""
    # The tests of the engine use this file too and need not load the command line.
    from tests.functional.machine import homes

    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path
