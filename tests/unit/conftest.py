"""The directories that the harness uses in unit tests."""

from pathlib import Path

import pytest

from tests.functional.machine import homes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set the harness's directories to new ones inside `tmp_path`, and return `tmp_path`."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path
