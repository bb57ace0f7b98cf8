"""`harness rerun`: run the code of a bundle. Its run.sh calls this command."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import DeviceOptions, Json, budget_seconds, check_output_file, recorded_values
from harness.cli.output import say
from harness.cli.resolving import target_record
from harness.cli.watching import follow
from harness.core.errors import HarnessError
from harness.jobs.attack.planning import plan_attack, start_attack
from harness.runs.folder import new_run_id
from harness.runs.launch import resume_run
from harness.runs.summary import run_status
from harness.submit.code_spec import read_code_spec
from harness.submit.rerun import SCORES, prepare_rerun, unfinished_run, write_rerun_results


def rerun(
    code: Annotated[Path, typer.Argument(metavar="CODE", help="Directory code/ of a bundle.", show_default=False)],
    prefixes: Annotated[
        Path, typer.Argument(metavar="PREFIXES", help="Prefixes: a .npy, .npz or .csv file.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="CSV", help="The submission to write.", show_default=True)
    ] = Path("submission.csv"),
    target: Annotated[
        str | None, typer.Option(envvar="HARNESS_TARGET", help="Directory of the target's weights.", show_envvar=True)
    ] = None,
    device: Annotated[
        str | None, typer.Option(envvar="HARNESS_DEVICE", help="Device, instead of the bundle's.", show_envvar=True)
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Wall clock, such as 24h.  [default: the bundle's]")
    ] = None,
    json: Json = False,
) -> None:
    """Run the code of a bundle on given prefixes.

    An interrupted run of the same code on the same prefixes is continued. Exit codes are those of `harness run`.
    """
    check_output_file(out)
    if out.is_dir():
        raise HarnessError(f"{out} is a directory. Name a file.")
    if out.name == SCORES:
        raise HarnessError(f"{out} is the name of the scores. Name the submission differently.")
    seconds = None if budget is None else budget_seconds(budget)
    spec = read_code_spec(code)
    with recorded_values(str(code)):
        prepared = prepare_rerun(code.resolve(), spec, prefixes)
    record = None
    if (wanted := spec.target) is not None:
        if wanted.is_folder and target is None:
            raise HarnessError(
                f"the bundle's target is the directory {wanted.id}. Set HARNESS_TARGET to where it is on this machine."
            )
        record = target_record(
            prepared.round,
            DeviceOptions(device or wanted.device, wanted.dtype, wanted.threads),
            target=target or wanted.id,
            revision=None if target else wanted.commit or wanted.revision,
        )
        if record.weights_sha256 != wanted.weights_sha256:
            raise HarnessError(
                f"{record.path}: other weights ({record.weights_sha256[:12]}…) than those that the bundle ran on: "
                f"{wanted.id} ({wanted.weights_sha256[:12]}…). Name the right target."
            )
    folder = unfinished_run(prepared)
    if folder is None:
        run = plan_attack(
            prepared.attack,
            prepared.params,
            prepared.round,
            record,
            id_=new_run_id(f"{spec.attack.name}-rerun"),
            budget=spec.budget if seconds is None else seconds,
            seed=spec.seed,
            limit=None,
        )
        folder = start_attack(run, prepared.attack)
        say(f"run {folder.id} · Ctrl-C leaves it running")
    elif run_status(folder).is_over:
        say(f"continuing run {folder.id}")
        resume_run(folder, weights_sha256=() if record is None else (record.weights_sha256,))
    try:
        follow(folder, json=json)
    finally:
        # The outcome is written however the run ended; the exit code says how.
        if run_status(folder).is_over:
            beside = write_rerun_results(folder, out)
            say(f"{out} · {beside}")
    if not json:
        print(out)
