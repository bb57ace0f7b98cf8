"""`harness score` and `harness validate`: a submission against the answers, and against the rules alone."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from harness.cli.options import Json, is_file_name, round_option
from harness.cli.output import pluralize, print_json, sanitize
from harness.core.arrays import Ints, Tokens, mapped_array, token_rows
from harness.core.errors import HarnessError
from harness.core.examples import error_cap_of, load_answers, load_clusters, load_prefixes
from harness.core.rounds import load_round
from harness.core.scoring import ERROR_COUNTS, Score, correct_rows, score_rows
from harness.core.submission_reader import SubmissionRules, read_submission, submission_faults, vocabulary_of
from harness.core.text import format_interval, format_score
from harness.jobs.attack.results import submission_now
from harness.runs.folder import run_folder

DEFAULT_CAP = 100


class Scorable(NamedTuple):
    """A submission and the answers to score it against.

    ids: [rows]. suffixes: [rows, suffix length]. answers: [examples, suffix length]. clusters: [examples] or None.
    """

    name: str
    ids: Ints
    suffixes: Tokens
    answers: Tokens
    clusters: Ints | None
    cap: int


def score(
    submission: Annotated[
        str, typer.Argument(metavar="CSV|RUN", help="A submission, or a run by its id.", show_default=False)
    ],
    answers: Annotated[
        Path | None, typer.Option(metavar="NPY", help="Answers, [examples, suffix length].", show_default=False)
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
    scorable = _find_scorable(submission, answers=answers, last=last, cap=cap, round_name=round_)
    scored = score_rows(
        correct_rows(scorable.ids, scorable.suffixes, scorable.answers),
        scorable.ids,
        cap=scorable.cap,
        examples=len(scorable.answers),
        clusters=scorable.clusters,
    )
    if plot is not None:
        from harness.figures.curves import write_recall_curve

        write_recall_curve(scored, plot, title=sanitize(scorable.name))
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


def _find_scorable(
    source: str, *, answers: Path | None, last: int | None, cap: int | None, round_name: str | None
) -> Scorable:
    """Return the submission that `source`, a CSV file or a run, names, with the answers that the options name."""
    if answers is not None and round_name is not None:
        raise typer.BadParameter("use either --answers or --round, not both.", param_hint="--answers")
    if last is not None and answers is None:
        raise typer.BadParameter("needs --answers. A round defines its own rows.", param_hint="--last")
    if not is_file_name(source, (".csv",)):
        if round_name is not None:
            raise typer.BadParameter("a run is scored on the round that it attacked.", param_hint="--round")
        return _from_run(source, answers, last, cap)
    if answers is not None:
        return _from_answers(Path(source), answers, last, cap)
    if round_name is not None:
        return _from_round(Path(source), round_name, cap)
    raise typer.BadParameter("a CSV file needs --answers NPY or --round ROUND.", param_hint="--answers")


def _from_run(name: str, answers: Path | None, last: int | None, cap: int | None) -> Scorable:
    """Return a run's submission, made from its record. `answers` are for a round that was blind when it ran."""
    folder = run_folder(name)
    spec = folder.attack_spec()
    known = load_answers(spec.round) if answers is None else _read_answers(answers, last)
    if known is None:
        raise HarnessError(f"round {spec.round.name} is blind. Score {folder.id} with --answers NPY.")
    if known.shape != (spec.round_examples, spec.round.suffix_length):
        raise HarnessError(
            f"{answers}: answers of shape {list(known.shape)}, but {folder.id} attacked {spec.round_examples} examples "
            f"with suffixes of {spec.round.suffix_length} tokens. --last selects rows."
        )
    clusters = load_clusters(spec.round, known)
    submission = submission_now(folder)
    attacked = slice(0, spec.examples)
    clusters = None if clusters is None else clusters[attacked]
    return Scorable(folder.id, submission.ids, submission.suffixes, known[attacked], clusters, cap or spec.error_cap)


def _from_answers(path: Path, answers: Path, last: int | None, cap: int | None) -> Scorable:
    known = _read_answers(answers, last)
    rules = SubmissionRules(examples=len(known), suffix_length=known.shape[1], vocabulary=vocabulary_of(known))
    submission = read_submission(path, rules)
    return Scorable(path.name, submission.ids, submission.suffixes, known, None, cap or DEFAULT_CAP)


def _from_round(path: Path, name: str, cap: int | None) -> Scorable:
    round_ = load_round(name)
    answers = load_answers(round_)
    if answers is None:
        raise HarnessError(f"round {round_.name} is blind: it has no answers to score against. Use --answers NPY.")
    rules = SubmissionRules(len(answers), round_.suffix_length, round_.vocabulary, round_.row_cap)
    submission = read_submission(path, rules)
    clusters = load_clusters(round_)
    return Scorable(path.name, submission.ids, submission.suffixes, answers, clusters, cap or error_cap_of(round_))


def _read_answers(path: Path, last: int | None) -> Tokens:
    """Return the last rows (None: all rows) of an answers file, [examples, suffix length]."""
    array = mapped_array(path)
    if array.ndim != 2 or 0 in array.shape:
        raise HarnessError(f"{path}: expected answers of shape [examples, tokens], found {list(array.shape)}.")
    if last is not None and last > len(array):
        raise HarnessError(f"{path} has {len(array)} rows. Lower --last {last}.")
    return token_rows(path, length=None, vocabulary=1 << 32, rows=(len(array) - (last or len(array)), len(array)))


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
