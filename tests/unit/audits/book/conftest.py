"""Files of texts that the demo target knows in part, and of control texts."""

from pathlib import Path

import pytest

from tests.demo_texts import trained_text, unseen_text


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    """The files of a text that the demo target knows in part, and of a control text."""
    known, control = tmp_path / "known.txt", tmp_path / "control.txt"
    known.write_text(f"{trained_text(6)}\n\n{unseen_text(2)}", encoding="utf-8")
    control.write_text(unseen_text(8)[-600:], encoding="utf-8")
    return known, control
