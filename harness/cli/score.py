"""`harness score`: a submission against the rules of a round and the answers."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from harness.analysis.submissions import find_submission
from harness.cli.options import Json, round_option
from harness.cli.output import pluralize, print_json, sanitize, say
from harness.core.examples import load_prefixes
from harness.core.paths import is_file_name
from harness.core.rounds import Round, load_round
from harness.core.scoring import ERROR_COUNTS, Score
from harness.core.submission_reader import SubmissionFault, SubmissionRules, read_submission, submission_faults
from harness.core.text import format_interval, format_score


def score(
    submission: str = Argument(..., metavar="CSV|RUN", help="A submission (.csv file), or the id of a run."),
    answers: Path | None = Option(
        None,
        metavar="NPY",
        help="File with one answer per row. If every id of the CSV is below 1,000, only the last 1,000 answers are "
        "used, unless you give --last.",
        show_default=False,
    ),
    last: int | None = Option(None, metavar="N", min=1, help="With --answers: use only the last N rows of this file."),
    cap: int | None = Option(
        None, min=1, help="Stop scoring after this many wrong rows.  [default: the round's, else 100]"
    ),
    round_: Annotated[str | None, round_option("Round whose answers and rules are used.")] = None,
    plot: Path | None = Option(
        None, metavar="FILE", help="Draw recall vs. errors and precision vs. recall to an .svg or .png file."
    ),
    json: Json = False,
) -> None:
    """Check a submission, and score it against the answers.

    If the file breaks the rules of the round, prints up to 20 errors with their lines (exit code 1). Otherwise prints
    the recall at the error cap with its interval, and recall and precision at several error counts. In a blind round,
    only the rules are checked.
    """
    if plot is not None:
        from harness.figures.curves import figure_format

        figure_format(plot)
    if round_ is not None and answers is None and last is None and is_file_name(submission, (".csv",)):
        scored_round = load_round(round_)
        faults = submission_faults(Path(submission), _rules(scored_round))
        if faults or (not _has_answers(scored_round) and cap is None and plot is None):
            _print_check(Path(submission), scored_round, faults, json=json)
            return
    entry = find_submission(submission, answers=answers, last=last, cap=cap, round_name=round_)
    scored = entry.score()
    if entry.note:
        say(entry.note)
    if plot is not None:
        from harness.figures.curves import write_score_figure

        write_score_figure(scored, plot, title=sanitize(entry.name))
    _print_score(scored, json=json)


def _has_answers(round_: Round) -> bool:
    """Return True if the answers of the round are on this machine."""
    return round_.file_with_answers is not None and round_.file_with_answers.exists()


def _rules(round_: Round) -> SubmissionRules:
    # The rules give the number of examples, except those of a fold; else the files do.
    rows = round_.answer_rows if round_.fold is None else None
    return SubmissionRules(
        examples=len(load_prefixes(round_)) if rows is None else rows[1] - rows[0],
        suffix_length=round_.suffix_length,
        vocabulary=round_.vocabulary,
        row_cap=round_.row_cap,
    )


def _print_check(file: Path, round_: Round, faults: list[SubmissionFault], *, json: bool) -> None:
    """Print the faults of a submission, or that it has none. Exit code 1 if it has any.

    Keys:
        valid (boolean): True if the submission follows the rules of the round.
        round (string): Name of the round.
        rows (number?): Rows of the submission. Null if it is not valid.
        faults (object[]): The first 20 errors.
            line (number): Line of the file. Line 1 is the header.
            fault (string): Error in this line.
    """
    rows = None if faults else len(read_submission(file, _rules(round_)).ids)
    if json:
        listed = [{"line": fault.line, "fault": fault.fault} for fault in faults]
        print_json({"valid": not faults, "round": round_.name, "rows": rows, "faults": listed})
    elif rows is None:
        print("\n".join(f"line {fault.line}: {fault.fault}" for fault in faults))
    else:
        valid = f"{sanitize(str(file))} is valid for {round_.name}: {pluralize(rows, 'row')}."
        print(f"{valid} The answers are not known, so there is no score.")
    if faults:
        raise typer.Exit(1)


def _print_score(scored: Score, *, json: bool) -> None:
    """Print recall, its interval, and recall and precision at several error counts.

    Keys:
        curve (ScoreCurve): Recall and precision at every error count, as lists of equal length.
    """
    if json:
        print_json(scored.as_json() | {"curve": scored.recall_curve().as_json()})
        return
    low, high, unit = scored.interval
    print(
        f"Recall@{scored.cap:,}: {format_score(scored.recall_at_cap)} {format_interval(low, high)} ({unit})\n"
        f"solved {scored.solved:,} of {pluralize(scored.examples, 'example')}; read {scored.rows_read:,} of "
        f"{pluralize(scored.rows, 'row')}, {scored.wrong_rows_read:,} of them wrong; ignored {scored.rows_ignored:,}"
        "\n\nerrors  recall  precision"
    )
    for errors in ERROR_COUNTS:
        at = scored.at_errors(errors)
        print(f"{at.errors:>6,}  {format_score(at.recall):>6}  {format_score(at.precision):>9}")
