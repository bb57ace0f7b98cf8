"""`harness bundle`: submissions as zips, from packaging to the leaderboard."""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from os.path import relpath
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer import Argument, Option

from harness.cli.options import (
    AttackName,
    Json,
    Run,
    budget_seconds,
    check_output_file,
    make_directory,
    round_option,
    write_output,
)
from harness.cli.output import align_columns, print_json, sanitize, say, shorten_middle
from harness.cli.rerun import rerun
from harness.cli.resolving import resolve_run
from harness.cli.typer_classes import CommandLine, Without
from harness.cli.verify import prepare, verify, verify_bundle
from harness.core.errors import HarnessError, missing_path, unknown_name
from harness.core.rounds import Round, load_round
from harness.core.run_request import NOT_IN_CODE, RunRequest
from harness.core.text import format_interval, format_number, format_score, pluralize, shorten
from harness.core.times import moment_text
from harness.runs.folder import run_folder
from harness.runs.specs import AttackSpec
from harness.submit.bundle import Bundle, code_bundle, submission_bundle
from harness.submit.bundle_checks import bundle_sha256
from harness.submit.checklist import Check, checklist, refusal
from harness.submit.code_folder import other_models
from harness.submit.code_spec import write_blind_round
from harness.submit.judging import load_judging_data
from harness.submit.leaderboard import (
    NOT_VERIFIED,
    Entry,
    OrganizerRecords,
    leaderboard,
    leaderboard_csv,
    read_arrivals,
)
from harness.submit.package_options import PackageOptions
from harness.submit.team import DESCRIPTION, TEAM, bundle_path, default_file
from harness.submit.verdict import load_verdict, unexpected_clause, verdict_path
from harness.submit.verify_options import VerifyOptions

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR|ZIP",
        help="Where to write the zip: a directory, or a name that ends in .zip.  [default: submissions/]",
    ),
]
_MAX_CELL = 40
Force = Annotated[bool, typer.Option("--force", help="Replace an existing zip.")]
app = CommandLine(name="bundle", help="Package, verify, run again and rank submissions.", no_args_is_help=True)


def package_run(
    run: Run,
    *,
    options: PackageOptions,
    accept: list[str] | None = Option(
        None, metavar="CHECK", help="Package despite this failed check; the manifest records it. Repeatable."
    ),
    check: bool = Option(False, "--check", help="Print the checklist and package nothing."),
    force: Force = False,
    json: Json = False,
) -> None:
    """Package a run: submission, code, description and team.

    With --check, exit code 1 means that a check fails.
    """
    folder = run_folder(run, AttackSpec)
    team, description = options.team or default_file(TEAM), options.description or default_file(DESCRIPTION)
    checks = checklist(folder, team=team, description=description)
    accepted = _accept_checks(accept or [], checks)
    refused = refusal(checks, accepted)
    if check:
        _print_checks(checks, accepted, json=json)
        if refused is not None:
            raise typer.Exit(1)
        return
    if refused is not None:
        raise refused
    if team is None or description is None:
        raise HarnessError("a bundle needs a team and a description. Name them with --team and --description.")
    destination = _destination(options.out, f"{folder.id}.zip", force=force)
    say(f"packaging {folder.id} …")
    unmet = [item for item in checks if not item.is_met]
    bundle = submission_bundle(folder, team=team, description=description, unmet=unmet, redact=options.redact)
    _write(bundle, destination, json=json)


def package_code(
    attack: AttackName,
    round_: Annotated[str, round_option("Name or TOML file of a round.")],
    *,
    request: Annotated[RunRequest, Without(*NOT_IN_CODE)],
    out: Out = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Package an attack's code before the prefixes are known.

    Prints the SHA-256 of the zip, which `harness bundle verify --frozen` compares later.
    """
    with _round_with_prefixes(round_) as name:
        plan = resolve_run(request.changed(attack=attack, round=name), runs_here=False)
    rules = load_round(round_)
    if (forbidden := rules.forbidden_model(other_models(plan.spec))) is not None:
        raise HarnessError(f"{rules.name} forbids the model {shorten(forbidden)}. Use another one, or none.")
    name = f"{plan.spec.attack.name}-{plan.spec.round.name.replace(':', '-')}-code.zip"
    destination = _destination(out, name, force=force)
    _write(code_bundle(plan.spec, plan.attack.path.read_bytes()), destination, json=json)
    if rules.code_deadline is not None:
        say(f"{rules.name} takes code until {moment_text(rules.code_deadline)}")


def _accept_checks(names: list[str], checks: list[Check]) -> frozenset[str]:
    by_name = {check.name: check for check in checks}
    for name in names:
        if name not in by_name:
            raise unknown_name("check", name, by_name, see="harness bundle create RUN --check")
        if not by_name[name].is_met and not by_name[name].can_be_accepted:
            raise HarnessError(f"--accept {name} is not possible: {by_name[name].sentence}; {by_name[name].fix}.")
    return frozenset(names)


def _destination(out: Path | None, name: str, *, force: bool) -> Path:
    """Return the path of the zip, and make its directory."""
    destination = bundle_path(out, name)
    make_directory(destination.absolute().parent)
    check_output_file(destination, force=force)
    return destination


def _write(bundle: Bundle, destination: Path, *, json: bool) -> None:
    """Write a bundle, and print its path and hash.

    Keys:
        bundle (string): Path of the zip.
        sha256 (string): SHA-256 of the zip.
        bytes (number): Size of the zip.
        files (number): Number of files in it.
        kind (string): `submission` or `code`.
        code_bundle_sha256 (string): SHA-256 of the bundle of the code, as `harness bundle code` writes it.
        pages (number?): Pages of the description. Null without a description.
        marks (AcceptedCheck[]): Accepted checks.
    """
    write_output(destination, bundle.content)
    manifest = bundle.manifest
    if json:
        printed: dict[str, Any] = {
            "bundle": str(destination),
            "sha256": bundle.sha256,
            "bytes": len(bundle.content),
            "files": len(manifest.files),
            "kind": manifest.kind,
            "code_bundle_sha256": manifest.code_bundle_sha256 or bundle.sha256,
            "pages": bundle.pages or None,
            "marks": [mark.model_dump() for mark in manifest.marks],
        }
        print_json(printed)
        return
    for mark in manifest.marks:
        say(f"accepted: {mark.check} – {sanitize(mark.sentence)}")
    print(f"{destination}\nsha256 {bundle.sha256}")
    if manifest.kind == "submission":
        say(f"{len(manifest.files):,} files, {bundle.pages} pages of description, code {manifest.code_bundle_sha256}")


def _print_checks(checks: list[Check], accepted: frozenset[str], *, json: bool) -> None:
    """Print the checklist.

    Keys:
        checks (Check[]): Checks in their order.
            is_accepted (boolean): True if `--accept` names the check.
    """
    if json:
        print_json({"checks": [check._asdict() | {"is_accepted": check.name in accepted} for check in checks]})
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign = "–" if check.name in accepted else check.sign
        print(f"{sign} {check.name:<{width}}  {sanitize(check.sentence)}")
        if not check.is_met:
            accept = f"; or --accept {check.name}" if check.can_be_accepted else ""
            print(f"  {'':<{width}}  → {sanitize(check.fix)}{accept}")


@contextlib.contextmanager
def _round_with_prefixes(name: str) -> Iterator[str]:
    """Yield the name of a round. If its prefixes are not known yet, yield a temporary round that stands in for it."""
    round_ = load_round(name)
    if round_.prefix_file.exists():
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="harness-package-") as folder:
        yield str(write_blind_round(round_, Path(folder)))


def rank(
    round_: Annotated[str, round_option("The round of the bundles.")],
    folder: Path = Argument(..., metavar="DIR", help="Directory of bundles."),
    answers: Path | None = Option(None, metavar="NPY", help="Answers of a blind round."),
    frozen: Path | None = Option(
        None,
        metavar="DIR",
        help="Rank only frozen code: DIR/NAME.zip for the bundle NAME.zip. DIR/NAME.patch is its approved change.",
    ),
    received: Path | None = Option(
        None,
        metavar="CSV",
        help="Arrival times; late bundles are not ranked. Columns: bundle, received and, for --frozen, code_received.",
    ),
    verify: bool = Option(False, "--verify", help="First run the code of bundles that have no verdict."),
    *,
    options: VerifyOptions,
    html: Path | None = Option(None, metavar="FILE", help="Write an HTML page."),
    csv: Path | None = Option(None, metavar="FILE", help="Write a CSV file; - for stdout."),
    json: Json = False,
) -> None:
    """Rank the bundles in a directory.

    Prints recall, its difference to the leader with an interval, time, and whether the bundle was verified.
    --verify uses the options that this command shares with `harness bundle verify`. The exit code is 1 if no bundle is
    ranked.

    Keys:
        round (string): Name of the round.
        error_cap (number): Number of wrong rows at which scoring stops.
        entries (Entry[]): One entry per bundle, the best first.
    """
    if not folder.is_dir():
        raise missing_path(folder, "directory", "`harness bundle create` writes bundles; name the directory with them.")
    bundles = sorted(folder.glob("*.zip"))
    if not bundles:
        raise HarnessError(f"{folder} contains no bundles. `harness bundle create` writes them.")
    for file in filter(None, (html, csv)):
        check_output_file(file)
    if options.budget is not None:
        budget_seconds(options.budget)
    if frozen is not None and not frozen.is_dir():
        raise missing_path(frozen, "directory")
    records = OrganizerRecords(frozen, None if received is None else read_arrivals(received))
    judging = load_judging_data(load_round(round_), answers=answers)
    if received is not None and judging.round.closes is None and judging.round.code_deadline is None:
        raise typer.BadParameter(f"the round {judging.round.name} has no deadline. Remove it.", param_hint="--received")
    _say_unchecked(judging.round, bundles, records)
    if verify:
        prepare(options)
        for bundle in bundles:
            try:
                if load_verdict(bundle, bundle_sha256(bundle)) is None:
                    verify_bundle(bundle, options, round_=judging.round, frozen=records.frozen_code(bundle))
            except HarnessError as error:
                # An error in one bundle does not stop the others.
                say(f"{sanitize(bundle.name)}: not verified: {sanitize(str(error))}")
            except Exception as error:
                say(f"{sanitize(bundle.name)}: not verified: {sanitize(unexpected_clause(error))}.")
    entries = leaderboard(
        bundles, judging, lambda name, number, of: say(f"{number} of {of}: {sanitize(name)}"), records
    )
    if unverified := sum(entry.verified == NOT_VERIFIED for entry in entries):
        say(f"{pluralize(unverified, 'bundle')} not run again: --verify does that, with an option such as --wheels")
    if html is not None:
        from harness.submit.html_page import page

        pages = _verdict_pages(bundles, html)
        write_output(html, page("leaderboard.html.j2", entries=entries, judging=judging, pages=pages))
    if csv is not None and str(csv) != "-":
        write_output(csv, leaderboard_csv(entries))
    if str(csv) == "-":
        print(leaderboard_csv(entries), end="")
    elif json:
        listed = [asdict(entry) | {"curve": entry.curve and entry.curve.as_json()} for entry in entries]
        print_json({"round": judging.round.name, "error_cap": judging.round.error_cap, "entries": listed})
    else:
        _print(entries)
    if not any(entry.team for entry in entries):
        raise typer.Exit(code=1)


def _verdict_pages(bundles: list[Path], board: Path) -> dict[str, str]:
    """Return the address of the verdict's page of each bundle that has one, relative to the page of the board."""
    files = {bundle.name: verdict_path(bundle).with_suffix(".html") for bundle in bundles}
    # A name may begin like an address of another scheme.
    return {name: f"./{quote(relpath(file, board.parent))}" for name, file in files.items() if file.is_file()}


def _say_unchecked(round_: Round, bundles: list[Path], records: OrganizerRecords) -> None:
    """Print which rules of the round this ranking does not check, and which listed bundles are not there."""
    if round_.code_deadline is not None and records.frozen is None:
        say("not checked without --frozen: that the code is the one from before the deadline")
    if round_.closes is not None and records.arrivals is None:
        say("not checked without --received: that bundles arrived in time")
    for name in sorted((records.arrivals or {}).keys() - {bundle.name for bundle in bundles}):
        say(f"{sanitize(name)}: in the list of arrivals, but not in the directory")


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
        if entry.patch:
            print(f"{sanitize(entry.bundle)}: frozen code with a patch: {entry.patch}")
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


app.command("create")(package_run)
app.command("code")(package_code)
app.command("verify")(verify)
app.command("rerun")(rerun)
app.command("rank")(rank)
