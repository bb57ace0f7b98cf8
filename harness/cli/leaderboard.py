"""`harness leaderboard`: the bundles in a folder, ranked."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import round_names
from harness.cli.output import align_columns, print_json, sanitize, say, shorten_middle

if TYPE_CHECKING:
    from harness.submit.leaderboard import Entry, JudgingData

_CELL = 40


def leaderboard(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of bundles.", show_default=False)],
    round_: Annotated[
        str,
        typer.Option("--round", "-r", metavar="R", help="The round that they are for.", autocompletion=round_names),
    ],
    answers: Annotated[
        Path | None,
        typer.Option(metavar="NPY", help="Answers of a blind round, now that they are out.", show_default=False),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the code of each bundle that has no verdict beside it first.")
    ] = False,
    target: Annotated[str | None, typer.Option(metavar="PATH|ID", help="With --verify: the target.")] = None,
    budget: Annotated[str | None, typer.Option(help="With --verify: wall clock for each.")] = None,
    allow_network_install: Annotated[
        bool, typer.Option("--allow-network-install", help="With --verify: as harness verify has it.")
    ] = False,
    wheels: Annotated[Path | None, typer.Option(metavar="DIR", help="With --verify: as harness verify has it.")] = None,
    own_environment: Annotated[
        bool, typer.Option("--own-environment", help="With --verify: as harness verify has it.")
    ] = False,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="With --verify: as harness verify has it.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a table; - for stdout.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """Rank bundles by recall at the cap: intervals of the difference to the leader, times, verified or not."""
    from harness.core.errors import HarnessError
    from harness.core.files import write_export
    from harness.submit.leaderboard import leaderboard as ranked
    from harness.submit.leaderboard import leaderboard_csv

    bundles = sorted(folder.glob("*.zip")) if folder.is_dir() else []
    if not bundles:
        raise HarnessError(f"{folder}: holds no bundle; harness package makes them.")
    for file in filter(None, (html, csv)):
        if not file.absolute().parent.is_dir():
            raise HarnessError(f"{file.parent}: no such folder.")
    judging = _judging(round_, answers)
    if verify:
        from harness.cli.verify import prepare, verified
        from harness.core.files import file_sha256
        from harness.core.rounds import load_round
        from harness.submit.environment import InstallOptions
        from harness.submit.verdict import load_verdict

        prepare(install := InstallOptions(own_environment, wheels, allow_network_install))
        for bundle in bundles:
            try:
                if load_verdict(bundle, file_sha256(bundle)) is None:
                    verified(
                        bundle,
                        round_=load_round(round_),
                        target=target,
                        budget=budget,
                        install=install,
                        unsafe=unsafe,
                    )
            except HarnessError as error:
                # One bundle that comes to no verdict keeps no other from its own.
                say(f"{sanitize(bundle.name)}: not verified: {sanitize(str(error))}")
    entries = ranked(bundles, judging, lambda name, number, of: say(f"{number} of {of}: {sanitize(name)}"))
    if html is not None:
        from harness.submit.html_page import page

        write_export(html, page("leaderboard.html.j2", entries=entries, judging=judging))
    if csv is not None:
        if str(csv) == "-":
            print(leaderboard_csv(entries), end="")
            return
        write_export(csv, leaderboard_csv(entries))
    if json:
        print_json({"round": judging.round, "entries": [entry.as_json() for entry in entries]})
    else:
        _print(entries)


def _judging(name: str, answers_file: Path | None) -> "JudgingData":
    from harness.core.arrays import token_rows
    from harness.core.errors import HarnessError
    from harness.core.examples import load_answers, load_clusters, load_prefixes
    from harness.core.rounds import load_round
    from harness.submit.leaderboard import JudgingData

    round_ = load_round(name)
    prefixes = load_prefixes(round_)
    if answers_file is None:
        answers = load_answers(round_)
    else:
        answers = token_rows(answers_file, length=round_.suffix_length, vocabulary=round_.vocabulary)
        if len(answers) != len(prefixes):
            raise HarnessError(f"{answers_file}: {len(answers):,} answers beside {len(prefixes):,} prefixes.")
    return JudgingData(
        round=round_.name,
        prefixes=prefixes,
        answers=answers,
        clusters=None if answers is None else load_clusters(round_, answers),
        suffix_length=round_.suffix_length,
        vocabulary=round_.vocabulary,
        error_cap=round_.error_cap,
        row_cap=round_.row_cap,
    )


def _print(entries: "list[Entry]") -> None:
    header = ("", "team", "attack", "recall", "− leader", "time", "verified", "measured on")
    rows = [_row(entry) for entry in entries if entry.team]
    if rows:
        print(align_columns([header, *[tuple(shorten_middle(sanitize(cell), _CELL) for cell in row) for row in rows]]))
    for entry in entries:
        if entry.marks:
            print(f"{sanitize(entry.bundle)}: accepted by its team: {sanitize(', '.join(entry.marks))}")
        if not entry.team:
            print(f"{sanitize(entry.bundle)}: not ranked: {sanitize(entry.unranked)}")


def _row(entry: "Entry") -> tuple[str, ...]:
    recall, difference, time = "blind", "", "–"
    if entry.recall is not None and entry.interval is not None:
        recall = f"{entry.recall:.3f} [{entry.interval[0]:.3f}, {entry.interval[1]:.3f}]"
    if entry.difference is not None and entry.difference_interval is not None:
        low, high = entry.difference_interval
        difference = f"{entry.difference:+.3f} [{low:+.3f}, {high:+.3f}]{' tie' if entry.ties else ''}"
    if entry.seconds is not None:
        time = f"{entry.seconds:.0f} s"
        time += "" if entry.time_of_leader is None else f", × {entry.time_of_leader:.2f}"
    place = "–" if entry.place is None else str(entry.place)
    return (place, entry.team, entry.attack, recall, difference, time, entry.verified, entry.hardware)
