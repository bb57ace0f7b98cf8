"""`harness export`: tables have the scores of the guesses."""

import csv
import json
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness.cli.export import _write_guesses
from harness.core.guesses import Guesses
from tests.records import Recorded, recorded_run
from tests.unit.cli.command_line import CommandLine

if TYPE_CHECKING:
    import pandas as pd

SCORES = [float("-inf"), float("inf"), 1.23456789012345e-13, 0.1, -3.0]


def _read(suffix: str, content: BytesIO) -> "pd.DataFrame":
    import pandas as pd  # slow to import

    if suffix == ".parquet":
        return pd.read_parquet(content)
    return pd.DataFrame(list(map(json.loads, content.getvalue().splitlines())))


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_infinite_and_small_scores_are_written(suffix: str) -> None:
    content = BytesIO()
    _write_guesses(content, Guesses(np.arange(5), np.full((5, 2), 7), score=np.array(SCORES)), suffix)
    content.seek(0)
    table = _read(suffix, content)
    assert table["example"].tolist() == [0, 1, 2, 3, 4]
    assert list(map(float, table["score"])) == SCORES
    suffixes = [json.loads(cell) if isinstance(cell, str) else list(cell) for cell in table["suffix"]]
    assert suffixes == [[7, 7]] * 5


@pytest.fixture
def run(home: Path) -> Recorded:
    """A finished run: of each of four examples, the first trial is wrong and a later one is right for two of them."""
    run = recorded_run(home)
    for place, trial in enumerate((1, 3, 10, 12)):
        rows = [(example, trial == 10 and example % 2 == 0, trial / 20 - example) for example in range(4)]
        run.guess(run.batch(f"guess/{place}/0"), rows, [trial] * 4)
    run.event("phase", phase="finished")
    return run


def recall(harness: CommandLine, file: Path, home: Path) -> float:
    """Return the recall of a submission as the official scorer reads it."""
    return float(harness("score", str(file), "--round", str(home / "small.toml"), "--json").json["recall_at_cap"])


def test_every_guess_is_a_submission_that_score_reads(harness: CommandLine, run: Recorded, home: Path) -> None:
    file = home / "every.csv"
    assert harness("export", run.folder.id, "--all", "--out", str(file), "--json").json["rows"] == 6
    with file.open(newline="") as opened:
        header, *rows = csv.reader(opened)
    assert header == ["Example ID", "Suffix Guess"]
    # Of two guesses with one suffix the later score counts. The best score is first.
    assert [int(example) for example, _ in rows] == [0, 0, 1, 2, 2, 3]
    assert recall(harness, file, home) == 2 / 16


def test_the_submissions_of_the_first_trials_are_files_of_the_baseline(
    harness: CommandLine, run: Recorded, home: Path
) -> None:
    printed = harness("export", run.folder.id, "--trials", str(home / "trials"), "--json").json
    names = ["guess1.csv", "guess10.csv", "guess12.csv"]
    assert [Path(path).name for path in printed["paths"].values()] == names
    assert [recall(harness, home / "trials" / name, home) for name in names] == [0.0, 2 / 16, 0.0]
    assert "--force replaces it" in harness("export", run.folder.id, "--trials", str(home / "trials")).err
    assert harness("export", run.folder.id, "--trials", str(home), "--all").code == 2


def test_a_run_without_trials_has_no_files_of_trials(harness: CommandLine, home: Path) -> None:
    run = recorded_run(home)
    run.guess(run.batch("guess/0/0"), [(0, True, 1.0)])
    refused = harness("export", run.folder.id, "--trials", str(home / "trials"))
    assert refused.code == 1 and "The guesses of this attack have no trials." in refused.err
    assert not (home / "trials").exists()
