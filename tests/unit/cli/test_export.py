"""`harness export --all`: every type of file has the scores of the guesses."""

import json
from io import BytesIO
from typing import TYPE_CHECKING

import numpy as np
import pytest

from harness.cli.export import _write_guesses
from harness.core.guesses import Guesses

if TYPE_CHECKING:
    import pandas as pd

SCORES = [float("-inf"), float("inf"), 1.23456789012345e-13, 0.1, -3.0]


def _read(suffix: str, content: BytesIO) -> "pd.DataFrame":
    import pandas as pd  # slow to import

    if suffix == ".csv":
        return pd.read_csv(content)
    if suffix == ".parquet":
        return pd.read_parquet(content)
    return pd.DataFrame(list(map(json.loads, content.getvalue().splitlines())))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_infinite_and_small_scores_are_written(suffix: str) -> None:
    content = BytesIO()
    _write_guesses(content, Guesses(np.arange(5), np.full((5, 2), 7), score=np.array(SCORES)), suffix)
    content.seek(0)
    table = _read(suffix, content)
    assert table["example"].tolist() == [0, 1, 2, 3, 4]
    assert list(map(float, table["score"])) == SCORES
    suffixes = [json.loads(cell) if isinstance(cell, str) else list(cell) for cell in table["suffix"]]
    assert suffixes == [[7, 7]] * 5
