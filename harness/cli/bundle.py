"""`harness bundle`: submissions as zips, from packaging to the leaderboard."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from harness.cli.leaderboard import rank
from harness.cli.options import (
    AttackName,
    DeviceOptions,
    GuessesPerExample,
    Json,
    Run,
    RunOptions,
    check_output_file,
    make_directory,
    round_option,
    write_output,
)
from harness.cli.output import print_json, sanitize, say
from harness.cli.rerun import rerun
from harness.cli.resolving import resolve_run
from harness.cli.typer_classes import CommandLine
from harness.cli.verify import verify
from harness.core.errors import HarnessError, unknown_name
from harness.core.rounds import load_round
from harness.runs.folder import run_folder
from harness.runs.specs import AttackSpec
from harness.submit.bundle import Bundle, code_bundle, submission_bundle
from harness.submit.checklist import Check, checklist, refusal
from harness.submit.code_folder import write_blind_round
from harness.submit.manifest import DESCRIPTION, TEAM, bundle_path, default_file

Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="DIR|ZIP", help="Where the zip goes.  [default: submissions/]")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing zip.")]


def package_run(
    run: Run,
    team: Path | None = Option(None, metavar="TOML", help="Team file.  [default: ./team.toml]"),
    description: Path | None = Option(None, metavar="MD", help="Description.  [default: ./description.md]"),
    out: Out = None,
    accept: list[str] | None = Option(
        None, metavar="CHECK", help="Package despite this failed check; the manifest records it. Repeatable."
    ),
    redact: bool = Option(False, "--redact", help="Replace suffixes in the description with their length and hash."),
    check: bool = Option(False, "--check", help="Print the checklist and package nothing."),
    force: Force = False,
    json: Json = False,
) -> None:
    """Package a run: submission, code, description and team.

    With --check, exit code 1 means that a check fails.
    """
    folder = run_folder(run, AttackSpec)
    team = team or default_file(TEAM)
    description = description or default_file(DESCRIPTION)
    checks = checklist(folder, team=team, description=description)
    accepted = _accepted(accept or [], checks)
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
    destination = _destination(out, f"{folder.id}.zip", force=force)
    say(f"packaging {folder.id} …")
    unmet = [item for item in checks if not item.is_met]
    bundle = submission_bundle(folder, team=team, description=description, unmet=unmet, redact=redact)
    _write(bundle, destination, json=json)


def package_code(
    attack: AttackName,
    round_: Annotated[str, round_option("Name or TOML file of a round.")],
    *,
    options: RunOptions,
    guesses_per_example: GuessesPerExample = None,
    compute: DeviceOptions,
    out: Out = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Package an attack's code before the prefixes are known.

    Prints the SHA-256 of the zip, which `harness bundle verify --frozen` compares later.
    """
    with _round_with_prefixes(round_) as name:
        plan = resolve_run(attack, name, options, compute, guesses_per_example=guesses_per_example, runs_here=False)
    name = f"{plan.spec.attack.name}-{plan.spec.round.name.replace(':', '-')}-code.zip"
    destination = _destination(out, name, force=force)
    _write(code_bundle(plan.spec, plan.attack.path.read_bytes()), destination, json=json)


def _accepted(names: list[str], checks: list[Check]) -> frozenset[str]:
    by_name = {check.name: check for check in checks}
    for name in names:
        if name not in by_name:
            raise unknown_name("check", name, by_name, see="harness bundle create RUN --check")
        if not by_name[name].is_met and not by_name[name].can_be_accepted:
            raise HarnessError(f"--accept {name}: {by_name[name].sentence}. This check cannot be accepted.")
    return frozenset(names)


def _destination(out: Path | None, name: str, *, force: bool) -> Path:
    """Return the path of the zip, and make its directory."""
    destination = bundle_path(out, name)
    make_directory(destination.absolute().parent)
    check_output_file(destination, force=force)
    return destination


def _write(bundle: Bundle, destination: Path, *, json: bool) -> None:
    """Write a bundle, and print its path and hash."""
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
    if json:
        print_json({"checks": [check._asdict() | {"is_accepted": check.name in accepted} for check in checks]})
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign = "✓" if check.is_met else "–" if check.name in accepted else "✗"
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


app = CommandLine(name="bundle", help="Package, verify, run again and rank submissions.", no_args_is_help=True)
app.command("create")(package_run)
app.command("code")(package_code)
app.command("verify")(verify)
app.command("rerun")(rerun)
app.command("rank")(rank)
