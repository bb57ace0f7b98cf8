"""`harness verify`: a bundle run again by its organizers, and what comes of it."""

import contextlib
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.completion import round_names
from harness.cli.output import print_json, sanitize, say
from harness.cli.steps import Steps

if TYPE_CHECKING:
    from harness.core.rounds import Round
    from harness.submit.environment import InstallOptions
    from harness.submit.manifest import TargetIdentity
    from harness.submit.verdict import Verdict
    from harness.submit.verification import LocalTarget


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The zip of a team.", show_default=False)],
    prefixes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The attacked prefixes: .npy, .npz or .csv.", show_default=False)
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(metavar="NPY", help="Their suffixes, to score by.", show_default=False)
    ] = None,
    round_: Annotated[
        str | None,
        typer.Option(
            "--round",
            "-r",
            metavar="R",
            help="Prefixes, answers and rules of this round instead.",
            autocompletion=round_names,
        ),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="PATH|ID", help="The target.  [default: the one that the bundle names]")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Wall clock for the code.  [default: --round's, else 24h]")] = None,
    frozen: Annotated[
        Path | None, typer.Option(metavar="CODE.zip", help="Say whether the code is that of this earlier bundle.")
    ] = None,
    allow_network_install: Annotated[
        bool, typer.Option("--allow-network-install", help="Let the set-up, and it alone, ask the package index.")
    ] = False,
    wheels: Annotated[Path | None, typer.Option(metavar="DIR", help="Set up from the wheels in this folder.")] = None,
    own_environment: Annotated[
        bool, typer.Option("--own-environment", help="Use this Python, if its versions are the locked ones.")
    ] = False,
    device: Annotated[str | None, typer.Option(help="Run on this device instead of the bundle's.")] = None,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Run the code even where there is no sandbox.")] = False,
    work: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Work in this empty folder, and leave it.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="Where the verdict goes.  [default: beside BUNDLE]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The verdict as one line of JSON on stdout.")] = False,
) -> None:
    """Run a bundle's code again and compare: exit code 0 when it reproduces, 1 if refused, 3 if it differs as it may.

    The code runs in the sandbox, without network, and sees its own files, its environment and the target alone.
    """
    from harness.core.errors import HarnessError
    from harness.core.rounds import load_round
    from harness.submit.environment import InstallOptions
    from harness.submit.verification import Verification

    if not bundle.is_file():
        raise HarnessError(f"{bundle}: no such file.")
    if prefixes is not None and round_ is not None:
        raise typer.BadParameter("give either --prefixes FILE or --round R.", param_hint="--prefixes")
    if answers is not None and prefixes is None:
        raise typer.BadParameter("goes with --prefixes FILE; a round names its own.", param_hint="--answers")
    is_static = prefixes is None and round_ is None
    if is_static and frozen is None:
        raise typer.BadParameter("give --prefixes FILE or --round R, or --frozen CODE.zip to compare code alone.")
    if frozen is not None and not frozen.is_file():
        raise HarnessError(f"{frozen}: no such file.")
    for folder in filter(None, (work, out)):
        _make(folder)
    if work is not None and any(work.iterdir()):
        raise HarnessError(f"{work}: is not empty.")
    if is_static:
        with _work_folder(work) as place:
            verdict = Verification(bundle, work=place, frozen=frozen).compare_code()
        beside = bundle if out is None else out / bundle.name
        # Nothing ran: what running it came to, and stands beside the bundle, stays.
        _write(verdict, beside.with_name(f"{bundle.stem}.frozen.json"))
    else:
        prepare(install := InstallOptions(own_environment, wheels, allow_network_install))
        verdict = verified(
            bundle,
            prefixes=prefixes,
            answers=answers,
            round_=None if round_ is None else load_round(round_),
            target=target,
            budget=budget,
            frozen=frozen,
            install=install,
            device=device,
            unsafe=unsafe,
            work=work,
            out=out,
        )
    print_json(verdict.as_json()) if json else _print(verdict)
    if verdict.outcome.exit_code:
        raise typer.Exit(verdict.outcome.exit_code)


def verified(
    bundle: Path,
    *,
    prefixes: Path | None = None,
    answers: Path | None = None,
    round_: "Round | None" = None,
    target: str | None,
    budget: str | None,
    frozen: Path | None = None,
    install: "InstallOptions",
    device: str | None = None,
    unsafe: bool,
    work: Path | None = None,
    out: Path | None = None,
) -> "Verdict":
    """The verdict on a bundle, told as it comes about and written beside the bundle (or into `out`)."""
    from harness.core.files import write_export
    from harness.core.times import parse_duration
    from harness.submit.verdict import produced_path, verdict_path
    from harness.submit.verification import OrganizerInputs, RunSettings, Verification

    given = OrganizerInputs(
        find_target=lambda named: _found_target(named, target, round_),
        round=round_,
        prefixes=prefixes,
        answers=answers,
        budget=None if budget is None else parse_duration(budget),
    )
    beside = bundle if out is None else out / bundle.name
    with _work_folder(work) as place, Steps(sanitize(bundle.name)) as steps:
        verification = Verification(bundle, work=place, frozen=frozen)
        verdict = verification.run(given, RunSettings(place, install, device, unsafe, steps.tell))
        if verification.produced is not None:
            # What the code wrote, read under the rules by now: the submission of code that came without one.
            write_export(produced_path(beside), verification.produced.read_bytes())
    _write(verdict, verdict_path(beside))
    return verdict


@contextlib.contextmanager
def _work_folder(asked: Path | None) -> Iterator[Path]:
    """The folder that was asked for, which stays, else one that goes."""
    if asked is not None:
        yield asked.resolve()
        return
    from harness.core.files import remove_tree

    temporary = Path(tempfile.mkdtemp(prefix="harness-verify-")).resolve()
    try:
        yield temporary
    finally:
        # What is left of a stranger's files costs room, not the verdict.
        with contextlib.suppress(OSError):
            remove_tree(temporary)


def _found_target(named: "TargetIdentity", asked: str | None, round_: "Round | None") -> "LocalTarget":
    """The verifier's own copy of the target: where --target says, else the round's, else what the bundle names.

    The bundle chooses no path of this machine and has nothing fetched: what it names is shipped, or in the hub's cache.
    """
    from harness.core.errors import HarnessError
    from harness.core.spec import SHIPPED_TARGETS
    from harness.engine.resolving import resolve_target
    from harness.submit.verification import LocalTarget

    if asked is not None:
        found = resolve_target(asked)
    elif round_ is not None:
        found = resolve_target(round_.target, round_.revision)
    elif named.is_folder or not (named.id in SHIPPED_TARGETS or _HUB_ID.fullmatch(named.id)):
        raise HarnessError(f"the bundle's target is {sanitize(named.id)}, a folder: --target says where it lies here.")
    else:
        found = resolve_target(named.id, named.commit or named.revision, offline=True)
    return LocalTarget(found.path, found.weights_sha256)


def _write(verdict: "Verdict", path: Path) -> None:
    """The verdict as JSON at `path`, and as a page beside it."""
    from json import dumps

    from harness.core.files import write_export
    from harness.submit.html_page import page

    write_export(path, dumps(verdict.as_json(), indent=2) + "\n")
    write_export(path.with_suffix(".html"), page("verdict.html.j2", verdict=verdict))
    say(f"{sanitize(str(path))} · {sanitize(path.with_suffix('.html').name)}")


def _print(verdict: "Verdict") -> None:
    width = max(len(finding.name) for finding in verdict.findings)
    for finding in verdict.findings:
        sign = {True: "✓", False: "✗", None: "·"}[finding.holds]
        print(f"{sign} {finding.name:<{width}}  {sanitize(finding.sentence)}")
    for name, change in sorted(verdict.code_changes.items()):
        print(f"\n{sanitize(name)}")
        print("\n".join(f"  {sanitize(line)}" for line in change.splitlines()))
    print(f"\n{verdict.outcome.words}: {sanitize(verdict.sentence)}")


def prepare(install: "InstallOptions") -> None:
    """Let a signal end this process as an error would, so that nothing stays behind. Raises HarnessError when there is
    nothing to install environments from, before any time is spent."""
    from harness.core.errors import HarnessError

    if not (install.use_own or install.may_use_network or install.wheels is not None):
        raise HarnessError(
            "nothing to install its environment from: --allow-network-install asks the package index, --wheels DIR "
            "takes a folder, and --own-environment the verifier's own."
        )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def _make(folder: Path) -> None:
    from harness.core.errors import HarnessError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HarnessError(f"{folder}: cannot be made ({error.strerror}).") from None
