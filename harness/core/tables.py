"""Tables that leave the harness, through pandas; nothing else in core imports this."""

import sys
from pathlib import Path

import pandas as pd

from harness.core.errors import HarnessError
from harness.core.guesses import Guesses


def guesses_table(guesses: Guesses) -> pd.DataFrame:
    """Columns example, score, suffix (a list of token ids), one row a guess."""
    return pd.DataFrame({"example": guesses.ids, "score": guesses.score, "suffix": list(guesses.suffixes.tolist())})


def write_guesses(destination: Path, guesses: Guesses) -> None:
    """Write every guess as CSV, JSON lines or Parquet, by the file's ending; `-` is CSV on stdout.

    Raises HarnessError for another ending, or for Parquet without an engine for it.
    """
    table = guesses_table(guesses)
    if str(destination) == "-":
        table.to_csv(sys.stdout, index=False)
    elif destination.suffix == ".csv":
        table.to_csv(destination, index=False)
    elif destination.suffix == ".jsonl":
        table.to_json(destination, orient="records", lines=True)
    elif destination.suffix == ".parquet":
        try:
            table.to_parquet(destination, index=False)
        except ImportError:
            raise HarnessError("Parquet needs pyarrow: pip install pyarrow, or write .csv or .jsonl.") from None
    else:
        raise HarnessError(f"{destination}: write .csv, .jsonl or .parquet.")
