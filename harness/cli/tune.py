"""`harness tune`: search an attack's parameters on folds of the training examples."""

import contextlib
import shlex
import time
from typing import Annotated, Any

import typer

from harness.cli.many_runs import RayOfTuning, cluster_address, executor_at, failure_of
from harness.cli.options import AttackName, Detach, Json, usage_errors
from harness.cli.output import print_json, sanitize, say
from harness.cli.resolving import check_cluster, current_weights, resolve_run
from harness.cli.show import print_tuning
from harness.cli.typer_classes import Without
from harness.core.errors import HarnessError
from harness.core.rounds import load_round
from harness.core.run_request import RunRequest
from harness.core.text import format_score
from harness.core.times import format_duration
from harness.plugins.discovery import attack_named
from harness.plugins.schema import fetch_schema
from harness.plugins.search_space import Span, settings_of, space_of
from harness.runs.folder import RunFolder, new_run_id
from harness.runs.launch import resume_run
from harness.runs.status import Status
from harness.runs.summary import run_status
from harness.sweeps.running import PlannedRun
from harness.sweeps.tuning import (
    TUNINGS,
    Step,
    Tried,
    TuneOptions,
    Tuning,
    best_of,
    next_step,
    require_optuna,
    runs_of,
    settings_tried,
)
from harness.sweeps.tuning_process import start_tuning, tuning_lock

_POLL_SECONDS = 0.2
_FOLDS = ("fold0of5", "fold1of5")


def tune(
    attack: AttackName,
    *,
    search: TuneOptions,
    request: Annotated[RunRequest, Without("group", "shards", "ray")],
    ray: RayOfTuning = "none",
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Search an attack's parameters on training examples.

    Each setting is run on one fold after the other. After four settings were run on every fold, a setting that falls
    below their median is not run on further folds. The answers of the round are never used: run the best setting on the
    round afterwards. `harness resume` continues an interrupted tuning, and with `--runs N` adds runs until there are N.
    """
    tuning = Tuning(
        id=new_run_id(f"tune-{attack}"),
        created_at=time.time(),
        request=request.changed(attack=attack, round=request.round).with_absolute_paths(),
        folds=tuple(dict.fromkeys(search.fold or _FOLDS)),
        vary=search.vary,
        runs=search.runs,
        ray=ray,
    )
    if detach:
        space, defaults = _space_and_defaults(tuning)
        if (step := next_step(space, defaults, (), tuning.folds, seed=request.seed)) is not None:
            _plan(tuning, step)  # raises the usage errors of the first run
        TUNINGS.write(tuning.id, tuning)
        _start(tuning, [], json=json)
    else:
        _complete(tuning, is_new=True, json=json)


def resume_tuning(tuning: Tuning, *, runs: int | None, ray: str | None, detach: bool, json: bool) -> None:
    """Continue a tuning, by default up to as many runs and on the cluster as before. Raises as `tune` does."""
    changed = {"runs": runs, "ray": ray}
    update = {name: value for name, value in changed.items() if value is not None}
    if detach:
        _start(tuning, [word for name, value in update.items() for word in (f"--{name}", str(value))], json=json)
    else:
        _complete(tuning.model_copy(update=update), is_new=False, json=json)


def _start(tuning: Tuning, options: list[str], *, json: bool) -> None:
    """Continue a tuning in a process of its own, and print its id.

    Keys:
        id (string): Id of the tuning.
    """
    start_tuning(tuning.id, options)
    print_json({"id": tuning.id}) if json else print(tuning.id)
    say(f"`harness show {tuning.id}` prints the settings so far, `harness stop {tuning.id}` stops it.")


def _complete(tuning: Tuning, *, is_new: bool, json: bool) -> None:
    """Run settings until the tuning has all its runs, then print them and the command that runs the best one."""
    space, defaults = _space_and_defaults(tuning)
    require_optuna()
    if (address := cluster_address(tuning.ray)) is not None:
        check_cluster(address)
    say(f"tuning {tuning.id} · {', '.join(f'{name} {span.in_words}' for name, span in space.items())}")
    try:
        with tuning_lock(tuning.id):
            _run_until(tuning, space, defaults, address, is_new=is_new)
    except KeyboardInterrupt:
        if tuning.id in TUNINGS.ids():
            option = "" if is_new else f" --runs {tuning.runs}"
            say(f"`harness resume {tuning.id}{option}` continues the tuning. A run in progress goes on.")
        raise typer.Exit(130) from None
    best = best_of(settings_tried(space, runs_of(tuning.id)))
    print_tuning(tuning, json=json)
    if best is None:
        raise HarnessError(f"no setting of {tuning.id} was run on its folds. `harness list runs` lists the runs.")
    settings = (*tuning.request.settings, *settings_of(space, best.params))
    words = ["harness", "run", tuning.request.attack, *tuning.request.changed(settings=settings).command_words()]
    say(f"best: {sanitize(shlex.join(words))}")


def _space_and_defaults(tuning: Tuning) -> tuple[dict[str, Span], dict[str, Any] | None]:
    """Return the searched parameters of a tuning, and the defaults of its attack.

    Those that the round's preset sets are searched only if `vary` names them.

    Raises HarnessError if the attack has changed since the first run, whose recall would be compared with others.
    """
    attack = attack_named(tuning.request.attack, tuning.request.attacks)
    if any(run.spec.attack.sha256 != attack.sha256 for run in runs_of(tuning.id)):
        raise HarnessError(f"{attack.path} has changed since {tuning.id} began. Start a new tuning.")
    schema = fetch_schema(attack.path, digest=attack.sha256)
    request, searched = tuning.request, {text.partition("=")[0] for text in tuning.vary}
    preset = load_round(request.round).presets.get(attack.name, {}) if request.preset else {}
    fixed = (*request.settings, *preset.keys() - searched)
    with usage_errors("--vary") if tuning.vary else contextlib.nullcontext():
        return space_of(schema.schema, fixed, tuning.vary), schema.params


def _run_until(
    tuning: Tuning,
    space: dict[str, Span],
    defaults: dict[str, Any] | None,
    address: str | None,
    *,
    is_new: bool,
) -> None:
    """Run settings until the tuning has all its runs, or every setting was tried: as many at once as there is room for.

    The record of a new tuning is written once its first run is resolved, so that a usage error leaves none.
    """
    for run in runs_of(tuning.id):
        # A run that was interrupted before its supervisor started counts as starting for some seconds, then as lost.
        _wait_for_end(run.folder)
        if run_status(run.folder) in (Status.LOST, Status.STOPPED):
            resume_run(run.folder, weights_sha256=current_weights(run.spec))
            _wait_for_end(run.folder)
    first, began_at = len(runs_of(tuning.id)), time.monotonic()
    runs, request = tuning.runs, tuning.request
    pending: dict[str, Tried] = {}
    failed: list[Tried] = []
    is_exhausted = False
    with executor_at(address, request, journal_file=TUNINGS.file_of(tuning.id).with_suffix(".nodes")) as executor:
        while True:
            # A run in progress counts as tried, without a recall.
            tuning_runs = [run for run in runs_of(tuning.id) if run.folder.id not in pending]
            tried = [*tuning_runs, *failed, *pending.values()]
            while len(tried) < runs and executor.has_room and not is_exhausted:
                step = next_step(space, defaults, tried, tuning.folds, seed=tuning.request.seed)
                # With runs in progress, a setting may go on later.
                is_exhausted = step is None and not pending
                if step is None:
                    break
                plan = _plan(tuning, step, on_cluster=address is not None)
                if is_new:
                    TUNINGS.write(tuning.id, tuning)
                    is_new = False
                executor.start(plan)
                pending[plan.spec.id] = Tried(RunFolder.of(plan.spec.id), plan.spec, None)
                tried.append(pending[plan.spec.id])
            if not pending:
                if is_exhausted:
                    say(f"every setting was tried after {len(tried)} runs.")
                return
            for ended in executor.wait():
                trial = pending.pop(ended.run)
                done = len(tried) - len(pending)
                if ended.failure:
                    # It counts as tried, because there is no record of it.
                    failed.append(trial)
                    say(f"{done} of {runs}: {ended.run} failed: {sanitize(ended.failure)}")
                    continue
                left = format_duration((time.monotonic() - began_at) / (done - first) * (runs - done))
                settings = sanitize(" ".join(settings_of(space, trial.spec.params)))
                recall = format_score(next(run.recall for run in runs_of(tuning.id) if run.folder.id == ended.run))
                line = f"{done} of {runs}: {settings} · {trial.fold} · recall {recall} · {ended.run}"
                say(line + (f" · about {left} left" if done < runs else ""))
                if failure := failure_of(ended.run):
                    say(failure)


def _plan(tuning: Tuning, step: Step, *, on_cluster: bool = False) -> PlannedRun:
    """Resolve the run of a setting on a fold."""
    request = tuning.request
    changed = request.changed(round=f"{request.round}:{step.fold}", settings=(*request.settings, *step.settings))
    return resolve_run(changed, parent=tuning.id, on_cluster=on_cluster)


def _wait_for_end(folder: RunFolder) -> None:
    while not run_status(folder).is_over:
        time.sleep(_POLL_SECONDS)
