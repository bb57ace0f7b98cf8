"""Fixtures for tests on recorded runs."""

from pathlib import Path

import pytest

from tests.functional.machine import homes


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that contains all directories of the harness."""
    for name, value in homes(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path
