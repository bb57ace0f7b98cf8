"""The record of a run as tables of pandas."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.decoded_text import TokenText, tokenizer_of_run
from harness.analysis.submissions import submission_of_run
from harness.core.arrays import Floats, Ints, Tokens
from harness.core.examples import load_prefixes
from harness.core.guesses import Guesses
from harness.core.inputs import as_harness_error
from harness.core.intervals import solutions
from harness.core.scoring import correct_rows, solved_curve
from harness.core.submission import current_rows
from harness.runs.attack_record import attacked_answers, submission_now
from harness.runs.folder import RunFolder
from harness.runs.guess_reader import GuessReader
from harness.runs.reader import RunReader
from harness.runs.specs import AttackSpec


def curve_table(solved: Ints, examples: int) -> pd.DataFrame:
    """Return recall vs. errors from the number of solved examples at each number of wrong rows, [wrong rows + 1]."""
    return pd.DataFrame({"errors": np.arange(1, len(solved) + 1), "recall": solved / examples})


def curve_of_run(folder: RunFolder) -> pd.DataFrame:
    """Return recall vs. errors of the run's current submission. Raises HarnessError if the answers are not known."""
    submitted = submission_of_run(folder)
    is_correct = correct_rows(submitted.ids, submitted.suffixes, submitted.answers)
    return curve_table(solved_curve(is_correct, submitted.ids), len(submitted.answers))


def guess_table(folder: RunFolder) -> pd.DataFrame:
    """Return the valid guesses of a run in the order of their arrival; each (example, suffix) has its last score."""
    spec = folder.attack_spec()
    with as_harness_error(folder.path), GuessReader.of_run(folder, spec) as reader:
        arrived = reader.arrivals(limit=-1)
        valid = arrived.valid_rows(reader.repeated_batches())
        guesses = arrived.guesses.part(valid)
        last = current_rows(guesses.ids, guesses.suffixes)
        seconds = _spent_at(reader, arrived.at[valid][last])
    guesses = guesses.part(last)
    return pd.DataFrame(guesses.numbers() | {"seconds": seconds} | _suffix_columns(folder, spec, guesses))


def submission_table(folder: RunFolder) -> pd.DataFrame:
    """Return the rows of the current submission of a run, first row first."""
    spec = folder.attack_spec()
    with as_harness_error(folder.path):
        guesses = submission_now(folder).guesses
    table = pd.DataFrame(guesses.numbers() | _suffix_columns(folder, spec, guesses))
    table.index = pd.RangeIndex(1, len(table) + 1, name="row")
    return table


def example_table(folder: RunFolder) -> pd.DataFrame:
    """Return the attacked examples of a run with their prefixes, and with their answers where they are known."""
    spec = folder.attack_spec()
    with as_harness_error(folder.path):
        prefixes, answers = load_prefixes(spec.round)[: spec.examples], attacked_answers(spec)
        is_solved: Any = pd.NA
        if answers is not None:
            submitted = submission_of_run(folder)
            solved = solutions(correct_rows(submitted.ids, submitted.suffixes, submitted.answers), submitted.ids)
            is_solved = np.isin(np.arange(len(prefixes)), solved.within(submitted.cap))
    columns: dict[str, Any] = {
        "solved": pd.array(np.broadcast_to(is_solved, len(prefixes)), dtype="boolean"),
        "prefix": prefixes.tolist(),
        "prefix_text": _texts(folder, spec, prefixes),
        "answer": None if answers is None else answers.tolist(),
        "answer_text": None if answers is None else _texts(folder, spec, answers),
    }
    return pd.DataFrame(columns, index=pd.RangeIndex(len(prefixes), name="example"))


def history_table(folder: RunFolder) -> pd.DataFrame:
    """Return the running curve of a run."""
    with as_harness_error(folder.path), RunReader(folder.store) as reader:
        points = reader.points()
    columns = {
        "seconds": [point.spent for point in points],
        "guesses": [point.guesses for point in points],
        "rows": [point.rows for point in points],
        "recall": pd.array([point.recall for point in points], dtype="Float64"),
    }
    return pd.DataFrame(columns)


def _suffix_columns(folder: RunFolder, spec: AttackSpec, guesses: Guesses) -> dict[str, Any]:
    """Return the columns `suffix`, `text` and `correct`: token ids, text or None, True, False or missing."""
    answers = attacked_answers(spec)
    is_correct: Any = [pd.NA] * len(guesses)
    if answers is not None:
        is_correct = correct_rows(guesses.ids, guesses.suffixes, answers)
    return {
        "correct": pd.array(is_correct, dtype="boolean"),
        "suffix": guesses.suffixes.tolist(),
        "text": _texts(folder, spec, guesses.suffixes),
    }


def _texts(folder: RunFolder, spec: AttackSpec, tokens: Tokens) -> list[str] | None:
    """Return the text of each row, or None if the run's tokenizer is not known."""
    file: Path = tokenizer_of_run(folder, spec)
    return TokenText(file).texts(tokens) if file.is_file() else None


def _spent_at(reader: GuessReader, at: Floats) -> Floats:
    """Return the seconds of the budget that were spent at these times, interpolated between entries of the ledger."""
    entries = sorted([(entry.at, entry.spent) for entry in reader.ledger()])
    if not entries:
        return np.zeros(len(at))
    times, spent = np.array(entries, np.float64).T
    # The clock can be set back, but spent time never becomes less.
    return np.asarray(np.interp(at, times, np.maximum.accumulate(spent)), np.float64)
