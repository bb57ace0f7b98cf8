"""`harness score` and `harness validate`: a submission against the answers, and against the rules alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from harness.cli.output import pluralize, print_json, sanitize

if TYPE_CHECKING:
    from harness.core.arrays import Ints, Tokens
    from harness.core.rounds import Round
    from harness.core.scoring import Score

DEFAULT_CAP = 100
DEFAULT_ROW_CAP = 100_000


class Judgement(NamedTuple):
    """A submission and what it is judged by.

    ids: [rows]; suffixes: [rows, suffix length]; answers: [examples, suffix length]; clusters: [examples] or None.
    """

    name: str
    ids: "Ints"
    suffixes: "Tokens"
    answers: "Tokens"
    clusters: "Ints | None"
    cap: int


def score(
    submission: Annotated[
        str, typer.Argument(metavar="CSV|RUN", help="A submission, or a run by its id.", show_default=False)
    ],
    answers: Annotated[
        Path | None, typer.Option(metavar="NPY", help="The answers, [examples, suffix length].", show_default=False)
    ] = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Example ids count within the last N rows of the answers.")
    ] = None,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Wrong rows that end the walk.  [default: the round's, else 100]")
    ] = None,
    round_name: Annotated[
        str | None, typer.Option("--round", metavar="R", help="Answers, clusters and rules of this round instead.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curve to an .svg or .png file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Score a submission: recall at 100 errors, its interval, and the whole curve."""
    from harness.core.scoring import correct_rows, score_rows

    if plot is not None:
        from harness.figures.curves import figure_format

        figure_format(plot)
    judgement = judged(submission, answers=answers, last=last, cap=cap, round_name=round_name)
    scored = score_rows(
        correct_rows(judgement.ids, judgement.suffixes, judgement.answers),
        judgement.ids,
        cap=judgement.cap,
        examples=len(judgement.answers),
        clusters=judgement.clusters,
    )
    if plot is not None:
        from harness.figures.curves import write_recall_curve

        write_recall_curve(scored, plot, title=sanitize(judgement.name))
    if as_json:
        print_json(scored.as_json())
    else:
        _print_score(scored)


def validate(
    submission: Annotated[Path, typer.Argument(metavar="CSV", help="The submission.", show_default=False)],
    round_name: Annotated[
        str, typer.Option("--round", metavar="R", help="The round whose rules it must keep.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Check a submission against a round's rules, without answers: up to 20 faults, then exit code 1."""
    from harness.core.rounds import load_round
    from harness.core.submission_reader import SubmissionRules, read_submission, submission_faults

    round_ = load_round(round_name)
    rules = SubmissionRules(
        examples=_examples_of(round_),
        suffix_length=round_.suffix_length,
        vocabulary=round_.vocabulary,
        row_cap=round_.row_cap,
    )
    faults = submission_faults(submission, rules)
    if as_json:
        print_json(
            {
                "valid": not faults,
                "round": round_.name,
                "rows": None if faults else len(read_submission(submission, rules).ids),
                "faults": [{"line": fault.line, "fault": fault.what} for fault in faults],
            }
        )
    elif faults:
        for fault in faults:
            print(f"line {fault.line}: {fault.what}")
    else:
        rows = len(read_submission(submission, rules).ids)
        print(f"{sanitize(str(submission))} keeps the rules of {round_.name}: {pluralize(rows, 'row')}.")
    if faults:
        raise typer.Exit(1)


def judged(
    source: str, *, answers: Path | None, last: int | None, cap: int | None, round_name: str | None
) -> Judgement:
    """What `source` names, a CSV or a run, with the answers and rules that the options name, or the run itself."""
    if answers is not None and round_name is not None:
        raise typer.BadParameter("give either --answers NPY or --round R.", param_hint="--answers")
    if last is not None and answers is None:
        raise typer.BadParameter("goes with --answers; a round knows its rows.", param_hint="--last")
    if not Path(source).exists() and "/" not in source and not source.endswith(".csv"):
        if round_name is not None:
            raise typer.BadParameter("a run is scored by the round that it attacked.", param_hint="--round")
        return _judged_run(source, answers, last, cap)
    if answers is not None:
        return _judged_by_answers(Path(source), answers, last, cap)
    if round_name is not None:
        return _judged_by_round(Path(source), round_name, cap)
    raise typer.BadParameter("give --answers NPY or --round R.", param_hint="--answers")


def _judged_run(name: str, answers: Path | None, last: int | None, cap: int | None) -> Judgement:
    """A run's submission, made anew from its record; `answers` serve a round that was blind when it ran."""
    from harness.core.errors import HarnessError
    from harness.core.examples import load_answers, load_clusters
    from harness.jobs.attack.results import submission_now
    from harness.runs.folder import run_folder

    folder = run_folder(name)
    spec = folder.spec()
    known = load_answers(spec.round) if answers is None else _answers_in(answers, last)
    if known is None:
        raise HarnessError(f"round {spec.round.name} is blind: score {folder.id} with --answers NPY once they are out.")
    if known.shape != (spec.round_examples, spec.round.suffix_length):
        raise HarnessError(
            f"{answers}: answers of shape {list(known.shape)} where {folder.id} attacked "
            f"{spec.round_examples} examples with suffixes of {spec.round.suffix_length} tokens; --last picks rows."
        )
    clusters = load_clusters(spec.round, known)
    rows = submission_now(folder)
    part = slice(0, spec.examples)
    clusters = None if clusters is None else clusters[part]
    return Judgement(folder.id, rows.ids, rows.suffixes, known[part], clusters, cap or spec.error_cap)


def _judged_by_answers(submission: Path, answers: Path, last: int | None, cap: int | None) -> Judgement:
    from harness.core.submission_reader import SubmissionRules, read_submission, vocabulary_of

    known = _answers_in(answers, last)
    rules = SubmissionRules(
        examples=len(known),
        suffix_length=known.shape[1],
        vocabulary=vocabulary_of(known),
        row_cap=DEFAULT_ROW_CAP,
    )
    rows = read_submission(submission, rules)
    return Judgement(submission.name, rows.ids, rows.suffixes, known, None, cap or DEFAULT_CAP)


def _judged_by_round(submission: Path, name: str, cap: int | None) -> Judgement:
    from harness.core.errors import HarnessError
    from harness.core.examples import error_cap_of, load_answers, load_clusters
    from harness.core.rounds import load_round
    from harness.core.submission_reader import SubmissionRules, read_submission

    round_ = load_round(name)
    answers = load_answers(round_)
    if answers is None:
        raise HarnessError(f"round {round_.name} is blind: no answers are there to score against.")
    rules = SubmissionRules(len(answers), round_.suffix_length, round_.vocabulary, round_.row_cap)
    rows = read_submission(submission, rules)
    clusters = load_clusters(round_)
    return Judgement(submission.name, rows.ids, rows.suffixes, answers, clusters, cap or error_cap_of(round_))


def _answers_in(path: Path, last: int | None) -> "Tokens":
    """The last rows (None: all) of an answers file, [examples, suffix length]."""
    from harness.core.arrays import mapped_array, token_rows
    from harness.core.errors import HarnessError

    array = mapped_array(path)
    if array.ndim != 2 or 0 in array.shape:
        raise HarnessError(f"{path}: wanted answers of shape [examples, tokens], found {list(array.shape)}.")
    if last is not None and last > len(array):
        raise HarnessError(f"{path}: --last {last} asks for more rows than its {len(array)}.")
    return token_rows(path, length=None, vocabulary=1 << 32, rows=(len(array) - (last or len(array)), len(array)))


def _examples_of(round_: "Round") -> int:
    """How many examples a round has, without its files where its own text tells."""
    from harness.core.examples import load_prefixes

    if round_.answer_rows is not None and round_.fold is None:
        return round_.answer_rows[1] - round_.answer_rows[0]
    return len(load_prefixes(round_))


def _print_score(scored: "Score") -> None:
    from harness.core.scoring import ERROR_COUNTS

    low, high, unit = scored.interval
    print(
        f"recall at {pluralize(scored.cap, 'error')}: {scored.recall_at_cap:.3f} [{low:.3f}, {high:.3f}] ({unit})\n"
        f"solved {scored.solved:,} of {pluralize(scored.examples, 'example')}; read {scored.rows_read:,} of "
        f"{pluralize(scored.rows, 'row')}, {scored.wrong_rows_read:,} of them wrong; ignored {scored.rows_ignored:,}"
        "\n\nerrors  recall  precision"
    )
    for errors in ERROR_COUNTS:
        at = scored.at_errors(errors)
        print(f"{at.errors:>6,}  {at.recall:>6.3f}  {at.precision:>9.3f}")
