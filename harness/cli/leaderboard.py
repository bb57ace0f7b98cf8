"""`harness bundle rank`: the bundles of a round, ranked."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from harness.cli.options import Json, VerifyOptions, budget_seconds, check_output_file, round_option, write_output
from harness.cli.output import align_columns, print_json, sanitize, say, shorten_middle
from harness.cli.verify import prepare, verified
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.text import format_interval, format_number, format_score
from harness.submit.bundle_checks import bundle_sha256
from harness.submit.leaderboard import Entry, leaderboard, leaderboard_csv
from harness.submit.rerun import load_judging_data
from harness.submit.verdict import load_verdict, unexpected

_MAX_CELL = 40


def rank(
    round_: Annotated[str, round_option("The round of the bundles.")],
    folder: Path = Argument(..., metavar="DIR", help="Directory of bundles."),
    answers: Path | None = Option(None, metavar="NPY", help="Answers of a blind round."),
    verify: bool = Option(False, "--verify", help="First run the code of bundles that have no verdict."),
    *,
    options: VerifyOptions,
    html: Path | None = Option(None, metavar="FILE", help="Write an HTML page."),
    csv: Path | None = Option(None, metavar="FILE", help="Write a CSV file; - for stdout."),
    json: Json = False,
) -> None:
    """Rank the bundles in a directory.

    Prints recall, its difference to the leader with an interval, time, and whether the bundle was verified.
    The options of `harness bundle verify` apply to --verify.
    """
    bundles = sorted(folder.glob("*.zip")) if folder.is_dir() else []
    if not bundles:
        raise HarnessError(f"{folder} contains no bundles. `harness bundle create` writes them.")
    for file in filter(None, (html, csv)):
        check_output_file(file)
    if options.budget is not None:
        budget_seconds(options.budget)
    judging = load_judging_data(load_round(round_), answers=answers)
    if verify:
        prepare(options)
        for bundle in bundles:
            try:
                if load_verdict(bundle, bundle_sha256(bundle)) is None:
                    verified(bundle, options, round_=judging.round)
            except HarnessError as error:
                # An error in one bundle does not stop the others.
                say(f"{sanitize(bundle.name)}: not verified: {sanitize(str(error))}")
            except Exception as error:
                say(f"{sanitize(bundle.name)}: not verified: {sanitize(unexpected(error))}.")
    entries = leaderboard(bundles, judging, lambda name, number, of: say(f"{number} of {of}: {sanitize(name)}"))
    if html is not None:
        from harness.submit.html_page import page

        write_output(html, page("leaderboard.html.j2", entries=entries, judging=judging))
    if csv is not None:
        if str(csv) == "-":
            print(leaderboard_csv(entries), end="")
            return
        write_output(csv, leaderboard_csv(entries))
    if json:
        print_json(
            {
                "round": judging.round.name,
                "error_cap": judging.round.error_cap,
                "entries": [asdict(entry) for entry in entries],
            }
        )
    else:
        _print(entries)


def _print(entries: list[Entry]) -> None:
    header = ("", "team", "attack", "recall", "− leader", "time", "verified", "measured on")
    rows = [_row(entry) for entry in entries if entry.team]
    if rows:
        print(
            align_columns([header, *[tuple(shorten_middle(sanitize(cell), _MAX_CELL) for cell in row) for row in rows]])
        )
    for entry in entries:
        if entry.marks:
            print(f"{sanitize(entry.bundle)}: accepted by its team: {sanitize(', '.join(entry.marks))}")
        if not entry.team:
            print(f"{sanitize(entry.bundle)}: not ranked: {sanitize(entry.unranked)}")


def _row(entry: Entry) -> tuple[str, ...]:
    recall, difference, time = "blind", "", "–"
    if entry.recall_at_cap is not None and entry.recall_interval is not None:
        recall = f"{format_score(entry.recall_at_cap)} {format_interval(*entry.recall_interval)}"
    if entry.difference is not None and entry.difference_interval is not None:
        interval = format_interval(*entry.difference_interval, is_signed=True)
        difference = f"{format_score(entry.difference, is_signed=True)} {interval}{' tie' if entry.ties else ''}"
    if entry.elapsed_s is not None:
        time = f"{format_number(entry.elapsed_s)} s"
        time += "" if entry.time_of_leader is None else f", × {format_number(entry.time_of_leader)}"
    place = "–" if entry.place is None else str(entry.place)
    return (place, entry.team, entry.attack, recall, difference, time, entry.verified, entry.hardware)
