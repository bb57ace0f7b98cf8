"""`harness bundle rerun`: run the code of a bundle. Its run.sh calls this command."""

from pathlib import Path
from typing import Any, Literal

from pydantic import PositiveInt, TypeAdapter, ValidationError
from typer import Argument, Option

from harness.cli.options import Json, budget_seconds, check_output_file, recorded_values
from harness.cli.output import say
from harness.cli.resolving import reference_record, target_record, usable_device
from harness.cli.watching import follow
from harness.core.errors import HarnessError
from harness.core.parameters import settings_from
from harness.core.rounds import Round
from harness.core.run_request import ModelOptions, RunRequest
from harness.core.spec import TargetRecord
from harness.core.text import shorten
from harness.runs.folder import new_run_id
from harness.runs.launch import resume_run
from harness.runs.planning import plan_attack, start_attack
from harness.runs.summary import run_status
from harness.submit.code_spec import CodeSpec, CodeTarget, read_code_spec
from harness.submit.manifest import MODEL_NAMES
from harness.submit.rerun import SCORES, RerunPlan, prepare_rerun, unfinished_run, write_rerun_results


def rerun(
    code: Path = Argument(..., metavar="CODE", help="Directory code/ of a bundle."),
    prefixes: Path = Argument(..., metavar="PREFIXES", help="Prefixes: a .npy or .npz file."),
    out: Path = Option(
        Path("submission.csv"), "--out", "-o", metavar="CSV", help="The submission to write.", show_default=True
    ),
    target: str | None = Option(
        None, envvar="HARNESS_TARGET", help="Directory of the target's weights.", show_envvar=True
    ),
    reference: str | None = Option(
        None, envvar="HARNESS_REFERENCE", help="Directory of the reference model's weights.", show_envvar=True
    ),
    base: str | None = Option(None, envvar="HARNESS_BASE", help="Base model of an adapter.", show_envvar=True),
    device: str | None = Option(
        None, envvar="HARNESS_DEVICE", help="cpu, cuda, cuda:N or auto (a GPU if any).", show_envvar=True
    ),
    batch_sizes: str = Option(
        "{}",
        metavar="JSON",
        envvar="HARNESS_BATCH_SIZES",
        help="Sizes of batches: run.batch_sizes of MANIFEST.json.",
        show_envvar=True,
    ),
    budget: str | None = Option(
        None, metavar="DURATION", help="Wall-clock limit, such as 24h or 90m.  [default: the bundle's]"
    ),
    json: Json = False,
) -> None:
    """Run the code of a bundle on given prefixes.

    If a run of the same code on the same prefixes was interrupted, it is continued. Exit codes are those of `harness
    run`.
    """
    check_output_file(out)
    if out.name == SCORES:
        raise HarnessError(f"{out} is the name of the scores. Name the submission differently.")
    seconds = None if budget is None else budget_seconds(budget)
    spec, sizes = read_code_spec(code), _batch_sizes(batch_sizes)
    with recorded_values(str(code)):
        prepared = prepare_rerun(code.resolve(), spec, prefixes)
    target_here = _model_here("target", spec.target, target, base, prepared.round, device)
    reference_here = _model_here("reference", spec.reference, reference, base, prepared.round, device)
    folder = unfinished_run(prepared)
    if folder is None:
        run = plan_attack(
            prepared.attack,
            prepared.params,
            prepared.round,
            target_here,
            _request(code, spec, prepared, target_here, reference_here, seconds),
            reference=reference_here,
            id_=new_run_id(f"{spec.attack.name}-rerun"),
            batch_sizes=sizes,
        )
        folder = start_attack(run, prepared.attack)
        say(f"run {folder.id}")
    elif run_status(folder).is_over:
        say(f"continuing run {folder.id}")
        models = [model for model in (target_here, reference_here) if model is not None]
        resume_run(folder, weights_sha256=tuple(model.weights_sha256 for model in models))
    else:
        say(f"run {folder.id} is already running")
    try:
        follow(folder, json=json)
    finally:
        # The outcome is written however the run ended; the exit code says how.
        if run_status(folder).is_over:
            scores_file = write_rerun_results(folder, out)
            say(f"{out} · {scores_file}")
    if not json:
        print(out)


def _request(
    code: Path,
    spec: CodeSpec,
    prepared: RerunPlan,
    target: TargetRecord | None,
    reference: TargetRecord | None,
    seconds: float | None,
) -> RunRequest:
    """Return the request of `harness run` that does the same, so that a run like this one can be started."""
    fields: dict[str, Any] = {} if reference is None else {"reference": str(reference.paths[-1])}
    if adapted := [model for model in (target, reference) if model is not None and model.adapter]:
        fields["base"] = str(adapted[0].path)
    if target is not None:
        fields |= {"target": str(target.paths[-1]), **target.model_dump(include={"device", "dtype", "threads"})}
    return RunRequest.checked(
        attack=spec.attack.name,
        round=prepared.round.name,
        settings=tuple(settings_from(prepared.params.params)),
        guesses_per_example=prepared.attack.guesses_per_example,
        budget=str(spec.budget if seconds is None else seconds),
        seed=spec.seed,
        attacks=prepared.attack.path.parent,
        **fields,
        **spec.options,
    )


def _batch_sizes(text: str) -> dict[str, int]:
    try:
        return TypeAdapter(dict[str, PositiveInt]).validate_json(text)
    except ValidationError:
        raise HarnessError(
            f"--batch-sizes {shorten(text)}: expected a JSON object of sizes, such as run.batch_sizes of MANIFEST.json."
        ) from None


def _model_here(
    role: Literal["target", "reference"],
    code_target: CodeTarget | None,
    model: str | None,
    base: str | None,
    round_: Round,
    device: str | None,
) -> TargetRecord | None:
    """Return the bundle's model `code_target` on this machine: `model` if it is given, else the one in the bundle.

    base: the base model of an adapter.
    Raises HarnessError if it cannot be found or has other weights.
    """
    if code_target is None:
        return None
    if code_target.is_folder and model is None:
        raise HarnessError(
            f"the bundle's {MODEL_NAMES[role]} is the directory {code_target.id}. Set HARNESS_{role.upper()} to where "
            "it is on this machine."
        )
    loading = code_target.model_dump(include={"device", "dtype", "threads"}) | ({"device": device} if device else {})
    compute = ModelOptions(**loading, base=base)
    revision = "main" if model else code_target.commit or code_target.revision
    find = target_record if role == "target" else reference_record
    record = find(round_, compute, model or code_target.id, revision)
    if record.weights_sha256 != code_target.weights_sha256:
        raise HarnessError(
            f"{record.path}: other weights ({record.weights_sha256[:12]}…) than those that the bundle ran on: "
            f"{code_target.id} ({code_target.weights_sha256[:12]}…). Name the right {MODEL_NAMES[role]}."
        )
    # Another device may have room for the whole model.
    shards = () if device else tuple(map(usable_device, code_target.shards))
    return record.model_copy(update={"shards": shards})
