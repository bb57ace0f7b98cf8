"""`harness package`: the zip for the organizers, or the code alone before the prefixes are known."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.completion import round_names, run_names
from harness.cli.output import print_json, sanitize, say

if TYPE_CHECKING:
    from harness.submit.bundle import Bundle
    from harness.submit.checklist import Check


def package(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ATTACK",
            help="A run, or with --code-only an attack.",
            autocompletion=run_names,
            show_default=False,
        ),
    ],
    team: Annotated[Path | None, typer.Option(metavar="TOML", help="The team.  [default: team.toml, if there]")] = None,
    description: Annotated[
        Path | None, typer.Option(metavar="MD", help="What is new about it.  [default: description.md, if there]")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="DIR|ZIP", help="Where the zip goes.  [default: submissions/]")
    ] = None,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK", help="Go on though this check is not met; the manifest says so. May be given often."
        ),
    ] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Suffixes in the description as length and hash.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Print the checklist and package nothing.")] = False,
    code_only: Annotated[
        bool, typer.Option("--code-only", help="The code of an attack, before its prefixes are known.")
    ] = False,
    round_: Annotated[
        str | None, typer.Option("--round", "-r", metavar="ROUND", help="With --code-only.", autocompletion=round_names)
    ] = None,
    target: Annotated[str | None, typer.Option(help="With --code-only: instead of the round's target.")] = None,
    budget: Annotated[str | None, typer.Option(help="With --code-only: instead of the round's budget.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="With --code-only: a parameter.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --code-only.")] = 0,
    device: Annotated[str, typer.Option(help="With --code-only: auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="With --code-only: auto, float32, float16 or bfloat16.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="With --code-only: CPU threads.")] = None,
    attacks: Annotated[
        Path | None, typer.Option(help="With --code-only: a folder of attacks before all others.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the zip.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """Package a run for its organizers: submission, code, description and team in one zip."""
    from harness.core.errors import HarnessError

    if code_only:
        if round_ is None:
            raise typer.BadParameter("goes with --round R.", param_hint="--code-only")
        from harness.cli.resolving import resolved_run
        from harness.submit.bundle import code_bundle

        with _known_round(round_) as name:
            plan = resolved_run(
                run,
                round_name=name,
                target=target,
                revision=None,
                budget=budget,
                settings=set_ or [],
                seed=seed,
                limit=None,
                device=device,
                dtype=dtype,
                threads=threads,
                attacks=attacks,
            )
        name = f"{plan.spec.attack.name}-{plan.spec.round.name.replace(':', '-')}-code.zip"
        destination = _destination(out, name, force=force)
        _written(code_bundle(plan.spec, plan.attack.path.read_bytes()), destination, json=json)
        return
    if round_ is not None:
        raise typer.BadParameter("a run has its round; --round goes with --code-only.", param_hint="--round")

    from harness.runs.folder import run_folder
    from harness.submit.checklist import checklist, refusal
    from harness.submit.default_paths import DESCRIPTION, TEAM, default_file

    folder = run_folder(run)
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
        raise HarnessError("a bundle needs a team and a description.")
    destination = _destination(out, f"{folder.id}.zip", force=force)
    from harness.submit.bundle import submission_bundle

    say(f"packaging {folder.id} …")
    unmet = [one for one in checks if not one.is_met]
    bundle = submission_bundle(folder, team=team, description=description, unmet=unmet, redact=redact)
    _written(bundle, destination, json=json)


def _accepted(names: list[str], checks: "list[Check]") -> frozenset[str]:
    from harness.core.errors import HarnessError, unknown_name

    by_name = {check.name: check for check in checks}
    for name in names:
        if name not in by_name:
            raise unknown_name("check", name, by_name, see="harness package RUN --check")
        if not by_name[name].is_met and not by_name[name].can_be_accepted:
            raise HarnessError(f"--accept {name}: {by_name[name].sentence}; that cannot be accepted.")
    return frozenset(names)


def _destination(out: Path | None, name: str, *, force: bool) -> Path:
    from harness.core.errors import HarnessError
    from harness.submit.default_paths import bundle_path

    destination = bundle_path(out, name)
    try:
        destination.absolute().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{destination.parent}: cannot be made ({error.strerror}).") from None
    if destination.exists() and not force:
        raise HarnessError(f"{destination} is there already; --force replaces it.")
    return destination


def _written(bundle: "Bundle", destination: Path, *, json: bool) -> None:
    from harness.core.errors import HarnessError
    from harness.core.files import write_export

    try:
        write_export(destination, bundle.content)
    except OSError as error:
        raise HarnessError(f"{destination}: cannot be written ({error.strerror}).") from None
    manifest = bundle.manifest
    if json:
        told: dict[str, Any] = {
            "bundle": str(destination),
            "sha256": bundle.sha256,
            "bytes": len(bundle.content),
            "files": len(manifest.files),
            "kind": manifest.kind,
            "code_bundle_sha256": manifest.code_bundle_sha256 or bundle.sha256,
            "pages": bundle.pages or None,
            "marks": [mark.model_dump() for mark in manifest.marks],
        }
        print_json(told)
        return
    for mark in manifest.marks:
        say(f"accepted: {mark.check} – {sanitize(mark.sentence)}")
    print(f"{destination}\nsha256 {bundle.sha256}")
    if manifest.kind == "submission":
        pages, code = bundle.pages, manifest.code_bundle_sha256
        say(f"{len(manifest.files):,} files, a description of {pages} pages; its code alone, frozen, is {code}")


def _print_checks(checks: "list[Check]", accepted: frozenset[str], *, json: bool) -> None:
    if json:
        print_json([check._asdict() | {"is_accepted": check.name in accepted} for check in checks])
        return
    width = max(len(check.name) for check in checks)
    for check in checks:
        sign = "✓" if check.is_met else "–" if check.name in accepted else "✗"
        print(f"{sign} {check.name:<{width}}  {sanitize(check.sentence)}")
        if not check.is_met:
            accept = f"; or --accept {check.name}" if check.can_be_accepted else ""
            print(f"  {'':<{width}}  → {sanitize(check.mend)}{accept}")


@contextlib.contextmanager
def _known_round(name: str) -> Iterator[str]:
    """The round called so; where its prefixes are not known yet, one for a while that stands in for it."""
    from harness.core.rounds import load_round
    from harness.submit.code_spec import write_blind_round

    round_ = load_round(name)
    if round_.prefix_file.exists():
        yield name
        return
    with tempfile.TemporaryDirectory(prefix="harness-package-") as folder:
        yield str(write_blind_round(round_, Path(folder)))
