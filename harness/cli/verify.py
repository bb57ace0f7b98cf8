"""`harness bundle verify`: run a bundle's code again and compare what it produces."""

import contextlib
import signal
import sys
import time
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from harness.cli.options import Json, budget_seconds, make_directory, round_option, write_output
from harness.cli.output import print_json, sanitize, say
from harness.cli.progress import StatusLine
from harness.cli.resolving import find_target, usable_device
from harness.core.errors import HarnessError, UsageError, missing_path
from harness.core.files import temporary_folder
from harness.core.inputs import require_file
from harness.core.rounds import Round, load_round
from harness.core.spec import BUILT_IN_TARGETS
from harness.core.times import format_duration
from harness.engine.resolving import ResolvedTarget
from harness.submit.bundle_checks import FrozenCode
from harness.submit.code_folder import HUB_ID
from harness.submit.code_spec import CodeTarget
from harness.submit.execution import RunSettings
from harness.submit.manifest import MODEL_NAMES
from harness.submit.verdict import Verdict, produced_path, verdict_path
from harness.submit.verification import OrganizerInputs, Verification
from harness.submit.verify_options import VerifyOptions


def verify(
    bundle: Path = Argument(..., metavar="BUNDLE", help="The zip of a team."),
    prefixes: Path | None = Option(
        None, metavar="FILE", help="Prefixes, without a round: a .npy or .npz file.", show_default=False
    ),
    answers: Path | None = Option(
        None, metavar="NPY", help="With --prefixes: the answers, to score the result.", show_default=False
    ),
    round_: Annotated[str | None, round_option("Round whose prefixes, answers and rules are used.")] = None,
    *,
    options: VerifyOptions,
    frozen: Path | None = Option(None, metavar="CODE.zip", help="Refuse code that differs from this earlier bundle's."),
    patch: Path | None = Option(
        None, metavar="FILE.patch", help="With --frozen: an approved change of the frozen code, a unified diff."
    ),
    device: str | None = Option(None, help="cpu, cuda, cuda:N or auto (a GPU if any).  [default: the bundle's]"),
    work: Path | None = Option(
        None, metavar="DIR", help="Work in this empty directory, and keep it.", show_default=False
    ),
    out: Path | None = Option(
        None, "--out", "-o", metavar="DIR", help="Directory for the verdict.  [default: that of BUNDLE]"
    ),
    json: Json = False,
) -> None:
    """Run a bundle's code again and compare the results.

    The code runs in the sandbox, without network, and sees only its own files, its environment and the target.
    Exit code 1: the bundle is refused. 3: the results differ for an accepted reason, such as another device or other
    versions.
    """
    require_file(bundle)
    if prefixes is not None and round_ is not None:
        raise typer.BadParameter("use either --prefixes or --round, not both.", param_hint="--prefixes")
    if answers is not None and prefixes is None:
        raise typer.BadParameter("needs --prefixes. A round has its own answers.", param_hint="--answers")
    is_static = prefixes is None and round_ is None
    if is_static and frozen is None:
        raise UsageError(
            "nothing to compare the bundle with. Use --prefixes FILE or --round ROUND, or --frozen CODE.zip to compare "
            "code only."
        )
    if patch is not None and frozen is None:
        raise typer.BadParameter("needs --frozen, the code that it changes.", param_hint="--patch")
    for file in filter(None, (frozen, patch)):
        require_file(file)
    code = None if frozen is None else FrozenCode(frozen, patch)
    if device is not None:
        usable_device(device)
    for folder in filter(None, (work, out)):
        make_directory(folder)
    if work is not None and any(work.iterdir()):
        raise HarnessError(f"{work} is not empty. Choose an empty directory.")
    if is_static:
        with _work_folder(work) as place:
            verdict = Verification(bundle, work=place, frozen=code).compare_code()
        base = bundle if out is None else out / bundle.name
        # A verdict of running the code may exist; it is not replaced, because nothing ran.
        _write(verdict, base.with_name(f"{bundle.stem}.frozen.json"))
    else:
        prepare(options)
        verdict = verify_bundle(
            bundle,
            options,
            prefixes=prefixes,
            answers=answers,
            round_=None if round_ is None else load_round(round_),
            frozen=code,
            device=device,
            work=work,
            out=out,
        )
    print_json(asdict(verdict)) if json else _print(verdict)
    if verdict.outcome.exit_code:
        raise typer.Exit(verdict.outcome.exit_code)


def verify_bundle(
    bundle: Path,
    options: VerifyOptions,
    *,
    prefixes: Path | None = None,
    answers: Path | None = None,
    round_: Round | None = None,
    frozen: FrozenCode | None = None,
    device: str | None = None,
    work: Path | None = None,
    out: Path | None = None,
) -> Verdict:
    """Verify a bundle, show progress, and write the verdict next to the bundle or into `out`."""
    asked = {"target": options.target, "reference": options.reference}
    inputs = OrganizerInputs(
        find_model=lambda role, model: _found_model(role, model, asked[role], options.base, round_),
        round=round_,
        prefixes=prefixes,
        answers=answers,
        budget=None if options.budget is None else budget_seconds(options.budget),
    )
    base = bundle if out is None else out / bundle.name
    began = time.monotonic()
    with _work_folder(work) as place, StatusLine(seconds=10, ticks=True) as line:

        def show(words: str, key: str | None = None) -> None:
            line.update(
                lambda: f"{sanitize(bundle.name)} · {format_duration(time.monotonic() - began)} · {sanitize(words)}",
                key,
            )

        show("opening the bundle", "opening")
        settings = RunSettings(
            use_own_environment=options.own_environment,
            wheels=options.wheels,
            may_use_network=options.allow_network_install,
            may_run_without_sandbox=options.unsafe,
            device=device,
            on_step=lambda step: show(step, step),
            on_line=show,
        )
        verification = Verification(bundle, work=place, frozen=frozen)
        verdict = verification.run(inputs, settings)
        if verification.produced is not None:
            # A bundle of code alone has no submission: this one was read under the rules, and is ranked.
            write_output(produced_path(base), verification.produced.read_bytes())
    _write(verdict, verdict_path(base))
    return verdict


def _work_folder(asked: Path | None) -> contextlib.AbstractContextManager[Path]:
    """Return a context with the given directory, which is kept and becomes private, or a temporary one."""
    if asked is None:
        return temporary_folder("harness-verify-")
    # The code may leave a program in it that runs as the owner whoever starts it, so nobody else may enter.
    asked.chmod(0o700)
    return contextlib.nullcontext(asked.resolve())


def _found_model(
    role: str, code_target: CodeTarget, asked: str | None, base: str | None, round_: Round | None
) -> ResolvedTarget:
    """Return the verifier's copy of a model: that of the option `--role`, else the round's target, else the bundle's.

    A bundle cannot choose a path on this machine or make it download: its model is built-in or in the hub cache.
    """
    if asked is not None:
        return find_target(asked, base=base)
    if role == "target" and round_ is not None:
        return find_target(round_.target, round_.revision, base=base)
    if code_target.is_folder or not (code_target.id in BUILT_IN_TARGETS or HUB_ID.fullmatch(code_target.id)):
        noun = MODEL_NAMES[role]
        raise HarnessError(f"the bundle's {noun} is the directory {sanitize(code_target.id)}. Name it with --{role}.")
    return find_target(code_target.id, code_target.commit or code_target.revision, offline=True)


def _write(verdict: Verdict, path: Path) -> None:
    """Write the verdict as JSON to `path`, and as an HTML page next to it."""
    from harness.submit.html_page import page

    write_output(path, dumps(asdict(verdict), indent=2) + "\n")
    write_output(path.with_suffix(".html"), page("verdict.html.j2", verdict=verdict))
    say(f"{sanitize(str(path))} · {sanitize(path.with_suffix('.html').name)}")


def _print(verdict: Verdict) -> None:
    width = max(len(finding.name) for finding in verdict.findings)
    for finding in verdict.findings:
        print(f"{finding.sign} {finding.name:<{width}}  {sanitize(finding.sentence)}")
    for name, change in sorted(verdict.code_changes.items()):
        print(f"\n{sanitize(name)}")
        print("\n".join(f"  {sanitize(line)}" for line in change.splitlines()))
    print(f"\n{verdict.outcome.words}: {sanitize(verdict.sentence)}")


def prepare(options: VerifyOptions) -> None:
    """Check the options of installation, and clean up when a signal ends this process.

    Raises a usage error if there is no source to install environments from, or no directory of wheels.
    """
    if not (options.own_environment or options.allow_network_install or options.wheels is not None):
        raise UsageError(
            "no source to install the bundle's environment from. Use --allow-network-install (the package index), "
            "--wheels DIR, or --own-environment (this Python)."
        )
    if options.wheels is not None and not options.wheels.is_dir():
        raise missing_path(options.wheels, "directory")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
