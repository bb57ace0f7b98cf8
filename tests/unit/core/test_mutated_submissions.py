"""A few hundred mutated submissions; `make soak` reads ten thousand."""

from pathlib import Path

from tests.soak.files import checked_files


def test_a_mutated_submission_is_read_correctly_or_refused(tmp_path: Path) -> None:
    seen = checked_files(300, seed=1, place=tmp_path)["verdicts"]
    assert min(seen.values()) > 20 and len(seen) == 3
