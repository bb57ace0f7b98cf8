"""Export tables with pandas. No other module of core imports this one."""

from typing import IO

import pandas as pd

from harness.core.errors import UsageError
from harness.core.guesses import Guesses


def write_guesses(file: IO[bytes], guesses: Guesses, suffix: str) -> None:
    """Write every guess: example, score and suffix (a list of token ids), as CSV, JSON lines or Parquet.

    suffix: of the file name, such as `.csv`. Raises UsageError if it is unknown.
    """
    columns = {"example": guesses.ids, "score": guesses.score, "suffix": list(guesses.suffixes.tolist())}
    table = pd.DataFrame(columns)
    if suffix == ".csv":
        table.to_csv(file, index=False)
    elif suffix == ".jsonl":
        table.to_json(file, orient="records", lines=True)
    elif suffix == ".parquet":
        table.to_parquet(file, index=False)
    else:
        raise UsageError(f"unknown format {suffix!r}. Use .csv, .jsonl or .parquet.")
