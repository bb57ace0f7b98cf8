"""Files of texts that the demo target knows in part, and of control texts."""

from pathlib import Path

import pytest

from tests.tools.demo_texts import trained_text, unseen_text


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The files of a text that the demo target knows in part, and of a control text."""
    folder = tmp_path_factory.mktemp("texts")
    known, control = folder / "known.txt", folder / "control.txt"
    known.write_text(f"{trained_text(6)}\n\n{unseen_text(2)}", encoding="utf-8")
    control.write_text(unseen_text(8)[-600:], encoding="utf-8")
    return known, control
