"""Export tables with pandas. No other module of core imports this one."""

import sys
from pathlib import Path

import pandas as pd

from harness.core.errors import HarnessError
from harness.core.guesses import Guesses


def guesses_table(guesses: Guesses) -> pd.DataFrame:
    """Return a table with one row per guess and the columns example, score and suffix (a list of token ids)."""
    return pd.DataFrame({"example": guesses.ids, "score": guesses.score, "suffix": list(guesses.suffixes.tolist())})


def write_guesses(destination: Path, guesses: Guesses) -> None:
    """Write every guess as CSV, JSON lines or Parquet, by the suffix of the file name; `-` is CSV on stdout.

    Raises HarnessError if the suffix is unknown.
    """
    table = guesses_table(guesses)
    if str(destination) == "-":
        table.to_csv(sys.stdout, index=False)
    elif destination.suffix == ".csv":
        table.to_csv(destination, index=False)
    elif destination.suffix == ".jsonl":
        table.to_json(destination, orient="records", lines=True)
    elif destination.suffix == ".parquet":
        table.to_parquet(destination, index=False)
    else:
        raise HarnessError(f"{destination}: unknown format. Use .csv, .jsonl or .parquet.")
