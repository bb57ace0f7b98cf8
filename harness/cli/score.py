"""`harness score` and `harness validate`: a submission against the answers, and against the rules alone."""

from pathlib import Path
from typing import Annotated

import typer

from harness.analysis.submissions import find_submission
from harness.cli.options import Json, round_option
from harness.cli.output import pluralize, print_json, sanitize, say
from harness.core.examples import load_prefixes
from harness.core.rounds import load_round
from harness.core.scoring import ERROR_COUNTS, Score
from harness.core.submission_reader import SubmissionRules, read_submission, submission_faults
from harness.core.text import format_interval, format_score


def score(
    submission: Annotated[
        str, typer.Argument(metavar="CSV|RUN", help="A submission, or a run by its id.", show_default=False)
    ],
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="NPY",
            help="Answers, [examples, suffix length]; if all ids are below 1,000, the last 1,000.",
            show_default=False,
        ),
    ] = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="With --answers: use only the last N rows.")
    ] = None,
    cap: Annotated[
        int | None,
        typer.Option(min=1, help="Stop scoring after this many wrong rows.  [default: the round's, else 100]"),
    ] = None,
    round_: Annotated[str | None, round_option("Round whose answers and rules are used.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curve to an .svg or .png file.")] = None,
    json: Json = False,
) -> None:
    """Score a submission against the answers.

    Prints the recall at the error cap with its interval, and recall and precision at several error counts.
    """
    if plot is not None:
        from harness.figures.curves import figure_format

        figure_format(plot)
    found = find_submission(submission, answers=answers, last=last, cap=cap, round_name=round_)
    scored = found.score()
    if found.note:
        say(found.note)
    if plot is not None:
        from harness.figures.curves import write_recall_curve

        write_recall_curve(scored, plot, title=sanitize(found.name))
    print_json(scored.as_json()) if json else _print_score(scored)


def validate(
    submission: Annotated[Path, typer.Argument(metavar="CSV", help="The submission.", show_default=False)],
    round_: Annotated[str, round_option("Round whose rules are checked.")],
    json: Json = False,
) -> None:
    """Check a submission against the rules of a round.

    Needs no answers. Prints up to 20 errors with their lines. Exit code 1: there are errors.
    """
    loaded = load_round(round_)
    # The rules give the number of examples, except those of a fold; else the files do.
    rows_in_rules = loaded.answer_rows if loaded.fold is None else None
    rules = SubmissionRules(
        examples=len(load_prefixes(loaded)) if rows_in_rules is None else rows_in_rules[1] - rows_in_rules[0],
        suffix_length=loaded.suffix_length,
        vocabulary=loaded.vocabulary,
        row_cap=loaded.row_cap,
    )
    faults = submission_faults(submission, rules)
    rows = None if faults else len(read_submission(submission, rules).ids)
    if json:
        print_json(
            {
                "valid": not faults,
                "round": loaded.name,
                "rows": rows,
                "faults": [{"line": fault.line, "fault": fault.what} for fault in faults],
            }
        )
    elif rows is None:
        print("\n".join(f"line {fault.line}: {fault.what}" for fault in faults))
    else:
        print(f"{sanitize(str(submission))} is valid for {loaded.name}: {pluralize(rows, 'row')}.")
    if faults:
        raise typer.Exit(1)


def _print_score(scored: Score) -> None:
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
