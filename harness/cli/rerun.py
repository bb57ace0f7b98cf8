"""`harness rerun`: what run.sh of a bundle calls."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.output import say


def rerun(
    code: Annotated[Path, typer.Argument(metavar="CODE", help="The folder code/ of a bundle.", show_default=False)],
    prefixes: Annotated[
        Path, typer.Argument(metavar="PREFIXES", help="The prefixes: .npy, .npz or .csv.", show_default=False)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="CSV", help="Where the submission goes.")] = Path(
        "submission.csv"
    ),
    target: Annotated[
        str | None, typer.Option(envvar="HARNESS_TARGET", help="A folder with the target's weights.")
    ] = None,
    device: Annotated[str | None, typer.Option(envvar="HARNESS_DEVICE", help="Instead of the bundle's.")] = None,
    budget: Annotated[str | None, typer.Option(help="Wall clock, instead of the bundle's.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """Run the code of a bundle on prefixes; a run of it that was interrupted goes on."""
    from harness.cli.resolving import target_record
    from harness.cli.watching import follow
    from harness.core.errors import HarnessError
    from harness.core.times import parse_duration
    from harness.jobs.attack.planning import plan_attack, start_attack
    from harness.runs.folder import new_run_id
    from harness.runs.launch import resume_run
    from harness.runs.summary import run_status
    from harness.submit.code_spec import read_code_spec
    from harness.submit.rerun import SCORES, prepare_rerun, unfinished_run, write_rerun_results

    if not out.absolute().parent.is_dir():
        raise HarnessError(f"{out.parent}: no such folder.")
    if out.is_dir():
        raise HarnessError(f"{out}: is a folder.")
    if out.name == SCORES:
        raise HarnessError(f"{out}: the scores go there; name the submission otherwise.")
    spec = read_code_spec(code)
    laid = prepare_rerun(code.resolve(), spec, prefixes)
    record = None
    if (wanted := spec.target) is not None:
        if wanted.is_folder and target is None:
            raise HarnessError(
                f"the bundle's target is the folder {wanted.id}: HARNESS_TARGET=FOLDER says where it lies here."
            )
        record = target_record(
            laid.round,
            target=target or wanted.id,
            revision=None if target else wanted.commit or wanted.revision,
            device=device or wanted.device,
            dtype=wanted.dtype,
            threads=wanted.threads,
        )
        if record.weights_sha256 != wanted.weights_sha256:
            raise HarnessError(
                f"{record.path}: these weights hash to {record.weights_sha256[:12]}…, and the bundle ran on "
                f"{wanted.id} with {wanted.weights_sha256[:12]}…."
            )
    folder = unfinished_run(laid)
    if folder is None:
        run = plan_attack(
            laid.attack,
            laid.params,
            laid.round,
            record,
            id_=new_run_id(f"{spec.attack.name}-rerun"),
            budget=spec.budget if budget is None else parse_duration(budget),
            seed=spec.seed,
            limit=None,
        )
        folder = start_attack(run, laid.attack)
        say(f"run {folder.id} · Ctrl-C leaves it running")
    elif run_status(folder).is_over:
        say(f"run {folder.id} goes on where it was")
        resume_run(folder, weights_sha256=() if record is None else (record.weights_sha256,))
    try:
        follow(folder, json=json)
    finally:
        # What was found is written however it ended, and the exit code says how that was.
        if run_status(folder).is_over:
            beside = write_rerun_results(folder, out)
            say(f"{out} · {beside}")
    if not json:
        print(out)
