"""`harness sweep`: many runs from one file, on this machine or on a Ray cluster."""

import signal
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from harness.cli.many_runs import RayAddress, cluster_address, cluster_slots, executor_at, failure_of
from harness.cli.options import Json
from harness.cli.output import align_columns, pluralize, print_json, sanitize, say
from harness.cli.progress import StatusLine
from harness.cli.resolving import check_cluster, resolve_run
from harness.cli.typer_classes import Without
from harness.cli.watching import EXIT_INCOMPLETE
from harness.core.errors import HarnessError, UsageError
from harness.core.files import try_lock
from harness.core.run_request import RunRequest
from harness.core.times import format_duration
from harness.plugins.discovery import attack_named
from harness.plugins.schema import validated_params
from harness.runs.facts import score_text
from harness.runs.folder import RunFolder
from harness.runs.status import Status
from harness.runs.summary import run_summary
from harness.sweeps.file import MAX_RUNS, NOT_OF_EACH_RUN, SweptRun, combinations, read_sweep_file
from harness.sweeps.record import (
    SWEEPS,
    Sweep,
    begin_sweep,
    estimated_seconds,
    finished_runs,
    progress_of,
    setting_named,
)
from harness.sweeps.running import Ended, PlannedRun, SweepState, follow_sweep

_SECONDS_BETWEEN_LINES = 30.0
_SHOWN_ACTIVE = 4


def sweep(
    file: Path = Argument(..., metavar="FILE", help="Sweep file (TOML)."),
    ray: RayAddress = None,
    dry_run: bool = Option(False, "--dry-run", help="Check everything and start nothing."),
    *,
    request: Annotated[RunRequest, Without(*(name for name in NOT_OF_EACH_RUN if name != "attacks"))],
    json: Json = False,
) -> None:
    """Run every combination of a sweep file.

    Each combination of attack, parameters, round, target and seed is a run with its own budget. Options that you give
    here replace those of the file. Ctrl-C ends the sweep, and `harness resume` continues it. On Ray, a run gets one CPU
    thread unless you give --threads, and a GPU if the cluster has GPUs and --device is not cpu.
    """
    address = cluster_address(ray)
    if address is not None:
        check_cluster(address)
    drafted = _draft(file, request)
    resolved = [_resolve(drafted, run, on_cluster=address is not None) for run in drafted.runs]
    if dry_run:
        slots = 1 if address is None else cluster_slots(address, drafted.request)
        _print_plan(drafted, resolved, slots=slots, json=json)
        return
    _complete(begin_sweep(drafted.model_copy(update={"ray": address})), address, json=json)


def resume_sweep(record: Sweep, *, ray: str | None, json: bool) -> None:
    """Compute the runs of a sweep that are not finished, where it began or on the cluster `ray`. Raises as `sweep`."""
    address = record.ray if ray is None else cluster_address(ray)
    if address is not None:
        check_cluster(address)
    _complete(record, address, json=json)


def _complete(record: Sweep, address: str | None, *, json: bool) -> None:
    """Compute the runs that are not finished and print how the sweep ended."""
    say(f"sweep {record.id}: {pluralize(len(record.runs), 'run')}")
    lock = try_lock(SWEEPS.file_of(record.id).with_suffix(".lock"))
    if lock is None:
        raise HarnessError(f"another command works on {record.id}. Wait for its end, or stop it.")
    with lock:
        state = _follow(record, address)
    _print_result(record, state, json=json)


def _draft(file: Path, typed: RunRequest) -> Sweep:
    """Return the sweep of a file, without ids."""
    content = read_sweep_file(file)
    request = typed.like(RunRequest(round="", **content.options)).with_absolute_paths()
    planned = {name: attack_named(name, request.attacks) for name in content.attacks}
    uses_target = {name: attack.uses_target for name, attack in planned.items()}
    for name, params in content.params.items():
        try:
            validated_params(planned[name].path, {param: values[0] for param, values in params.items()})
        except UsageError as error:
            raise UsageError(f"{file}: params.{name}: {error}") from None
    # A few lines of values can have more combinations than the memory can hold.
    runs = tuple(islice(combinations(content, uses_target=uses_target), MAX_RUNS + 1))
    if len(runs) > MAX_RUNS:
        raise UsageError(f"{file}: more than {MAX_RUNS:,} runs. Divide it into several sweeps.")
    if content.baseline is not None:
        setting_named(content.baseline, runs)
    return Sweep(
        id=content.name,
        created_at=0.0,
        baseline=content.baseline,
        request=request,
        sha256={name: attack.sha256 for name, attack in planned.items()},
        runs=runs,
    )


def _resolve(sweep: Sweep, swept: SweptRun, *, on_cluster: bool = False) -> PlannedRun:
    """Resolve one run. Raises HarnessError, which names the run. On a cluster the nodes choose the device."""
    attack = attack_named(swept.attack, sweep.request.attacks)
    if attack.sha256 != sweep.sha256.get(swept.attack):
        raise HarnessError(f"{attack.path} is not the source with which {sweep.id} began. Start a new sweep.")
    request = sweep.request.changed(
        attack=swept.attack,
        round=swept.round,
        target=swept.target,
        settings=tuple(f"{name}={text}" for name, text in swept.params.items()),
        seed=swept.seed,
    )
    try:
        if not attack.uses_target:
            request = request.without_target()
        return resolve_run(request, parent=sweep.id, run_id=swept.run or None, on_cluster=on_cluster)
    except (HarnessError, typer.BadParameter) as error:
        reason = error.message if isinstance(error, typer.BadParameter) else str(error)
        kind = HarnessError if type(error) is HarnessError else UsageError
        raise kind(f"{swept.setting} on {swept.round}, seed {swept.seed}: {reason}") from None


def _follow(sweep: Sweep, ray: str | None) -> SweepState:
    """Compute the runs that are not finished, on the cluster at the address `ray` or without one on this machine."""
    by_id = {swept.run: swept for swept in sweep.runs}
    progress = progress_of(sweep)
    left = [swept.run for swept in (*progress.running, *progress.unfinished, *progress.missing)]
    if progress.finished:
        say(f"{len(progress.finished):,} of {len(sweep.runs):,} are finished already")
    with StatusLine(seconds=_SECONDS_BETWEEN_LINES) as line:

        def plan(id_: str) -> PlannedRun:
            return _resolve(sweep, by_id[id_], on_cluster=ray is not None)

        def on_change(state: SweepState, ended: Sequence[Ended]) -> None:
            for number, swept in enumerate(ended, start=state.done - len(ended) + 1):
                say(_ended_line(f"{number:,} of {state.total:,}", by_id[swept.run], swept))
            line.update(_state_line(sweep, state))

        try:
            with executor_at(ray if left else None, sweep.request, journal_file=sweep.journal) as executor:
                # Ray's own handler prints a stack trace.
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                return follow_sweep(left, len(sweep.runs), executor, plan, on_change=on_change)
        except KeyboardInterrupt:
            rest = "The run in progress goes on." if ray is None else "The nodes keep what they have computed."
            say(f"`harness resume {sweep.id}` continues the sweep. {rest}")
            raise typer.Exit(130) from None


def _state_line(sweep: Sweep, state: SweepState) -> str:
    parts = [sweep.id, f"{state.done:,} of {state.total:,} runs"]
    if state.failed:
        parts.append(f"{len(state.failed):,} failed")
    if state.eta_s is not None:
        parts.append(f"ETA {format_duration(state.eta_s)}")
    lines = [
        f"{swept.run} {swept.words}" + ("" if swept.share is None else f" {swept.share:.0%}")
        for swept in state.active[:_SHOWN_ACTIVE]
    ]
    more = len(state.active) - len(lines)
    return " · ".join([*parts, *map(sanitize, lines), *([f"{more} more in progress"] if more > 0 else [])])


def _ended_line(place: str, swept: SweptRun, ended: Ended) -> str:
    name = f"{place}: {swept.run} · {swept.setting} · seed {swept.seed}"
    if ended.failure:
        return sanitize(f"{name} · failed: {ended.failure}")
    if failure := failure_of(swept.run):
        return sanitize(f"{name} · {failure}")
    summary = run_summary(RunFolder.of(swept.run))
    status = "" if summary.status is Status.FINISHED else f" · {summary.status.words}"
    return sanitize(f"{name} · {score_text(summary)}{status}")


def _print_plan(sweep: Sweep, resolved: Sequence[PlannedRun], *, slots: int, json: bool) -> None:
    """Print the number of runs and their expected time. A run of which nothing is known counts with its budget.

    `slots` is the number of runs that are computed at the same time.

    Keys:
        runs (object[]): Runs of the sweep.
            attack (string): Name of the attack.
            params (object): Values of the parameters, as text.
            seed (number): Seed of the run.
            round (string): Round, as the sweep file names it.
            target (string?): Target. Null for the target of the round.
            setting (string): Name of the setting: the attack and its parameters.
            budget_s (number): Time budget.
            estimate_s (number?): Expected time. Null if it is not known.
        estimated_s (number): Sum of the expected times.
        unestimated_budget_s (number): Sum of the budgets of the runs without an expected time.
        slots (number): Runs that are computed at the same time.
    """
    past = finished_runs()
    estimates = [estimated_seconds(plan.spec, past) for plan in resolved]
    durations = [seconds for seconds in estimates if seconds is not None]
    budgets = [plan.spec.budget for plan, seconds in zip(resolved, estimates, strict=True) if seconds is None]
    if json:
        runs = [
            {
                **swept.model_dump(exclude={"run"}),
                "setting": swept.setting,
                "budget_s": plan.spec.budget,
                "estimate_s": seconds,
            }
            for swept, plan, seconds in zip(sweep.runs, resolved, estimates, strict=True)
        ]
        print_json({"runs": runs, "estimated_s": sum(durations), "unestimated_budget_s": sum(budgets), "slots": slots})
        return
    rows = [("setting", "round", "target", "runs", "estimate of each", "budget of each")]
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place, swept in enumerate(sweep.runs):
        target = resolved[place].spec.target_name or "–"
        groups.setdefault((swept.setting, resolved[place].spec.round.name, target), []).append(place)
    for (setting, round_, target), places in groups.items():
        seconds = estimates[places[0]]
        estimate = "unknown" if seconds is None else f"about {format_duration(seconds)}"
        budget = format_duration(resolved[places[0]].spec.budget)
        rows.append((sanitize(setting), round_, sanitize(target), str(len(places)), estimate, budget))
    print(align_columns(rows))
    at_once = max(1, min(slots, len(sweep.runs)))
    order = "one after the other" if at_once == 1 else f"{at_once} at a time"
    parts = [f"{pluralize(len(sweep.runs), 'run')}, {order}:"]
    if durations:
        parts.append(f"about {format_duration(sum(durations) / at_once)} for {len(durations):,}")
    if budgets:
        longest = format_duration(sum(budgets) / at_once)
        parts.append(f"{'and ' if durations else ''}at most {longest} for {len(budgets):,} without an estimate")
    print(" ".join(parts))


def _print_result(sweep: Sweep, state: SweepState, *, json: bool) -> None:
    """Print how the sweep ended. Exit code 1 if a run has no record or crashed, 3 if one was stopped.

    Keys:
        id (string): Id of the sweep.
        runs (number): Runs of the sweep.
        finished (string[]): Ids of the runs that finished or ran out of time.
        unfinished (string[]): Ids of the other runs.
        failed (object): Errors of runs that could not start or whose record could not be stored, by id.
    """
    progress = progress_of(sweep)
    if json:
        print_json(
            {
                "id": sweep.id,
                "runs": len(sweep.runs),
                "finished": [swept.run for swept in progress.finished],
                "unfinished": [swept.run for swept in (*progress.running, *progress.unfinished, *progress.missing)],
                "failed": state.failed,
            }
        )
    say(f"`harness show {sweep.id}` compares the runs.")
    if state.failed:
        raise HarnessError(f"{sweep.id}: {pluralize(len(state.failed), 'run')} failed. See the lines above.")
    if len(progress.finished) < len(sweep.runs):
        left = len(sweep.runs) - len(progress.finished)
        say(f"{pluralize(left, 'run')} did not finish. `harness resume {sweep.id}` continues.")
        raise typer.Exit(EXIT_INCOMPLETE)
