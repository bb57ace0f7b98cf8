"""Commands that start, watch, stop and resume a run."""

from functools import partial
from typing import Annotated

import typer

from harness.cli.clusters import check_cluster
from harness.cli.completion import run_names
from harness.cli.descriptions import describe_plan, plan_as_json
from harness.cli.options import (
    Detach,
    DeviceOptions,
    Devices,
    Group,
    Json,
    Limit,
    OptionalAttackName,
    Plain,
    Round,
    Run,
    RunOptions,
    ShardTarget,
    ShareDevice,
    checked_group,
    round_or_default,
)
from harness.cli.output import is_terminal, print_json, sanitize, say
from harness.cli.repeating import RunRequest, request_like
from harness.cli.resolving import current_weights, resolve_run
from harness.cli.typer_classes import is_given
from harness.cli.watching import follow, follow_or_detach, start_and_follow
from harness.core.rounds import preset_text
from harness.core.spec import cluster_device
from harness.jobs.attack.planning import start_attack
from harness.runs.folder import run_folder
from harness.runs.launch import resume_run, stop_run
from harness.runs.summary import run_summary


def run(
    context: typer.Context,
    attack: OptionalAttackName = None,
    round_: Round = None,
    *,
    options: RunOptions,
    limit: Limit = None,
    compute: DeviceOptions,
    devices: Devices = None,
    shard_target: ShardTarget = False,
    shards: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Number of workers on the Ray cluster of --ray.")
    ] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Ray cluster for --shards: HOST:PORT, or `auto`.")
    ] = None,
    share_device: ShareDevice = False,
    group: Group = None,
    like: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Take what is not given from this run.", autocompletion=run_names),
    ] = None,
    preset: Annotated[
        bool, typer.Option("--preset", help="Use the round's preset for the attack; --set takes precedence.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and start nothing.")] = False,
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Run an attack on a round.

    Ctrl-C leaves the run running. Exit code 3: it ran out of time or was stopped. With `--like RUN` the attack and its
    parameters, round, seed, limit, budget, target and device are those of RUN, unless they are given.
    """
    if shards is not None or ray is not None:
        if shard_target:
            raise typer.BadParameter("cannot be used together with --shard-target.", param_hint="--shards")
        devices = _cluster_devices(shards, ray, devices)
    request = RunRequest(attack or "", round_, options, compute, devices, shard_target, limit)
    if like is not None:
        request = request_like(run_folder(like), request, partial(is_given, context))
    elif attack is None:
        raise typer.BadParameter("name an attack, or use --like RUN.", param_hint="ATTACK")
    plan = resolve_run(
        request.attack,
        round_or_default(request.round),
        request.options,
        request.compute,
        limit=request.limit,
        devices=request.devices,
        shards_target=request.shard_target,
        shares_device=share_device,
        parent=checked_group(group),
        uses_preset=preset,
    )
    if plan.unused_preset and like is None:
        values = sanitize(preset_text(plan.unused_preset))
        say(f"The round's preset for {request.attack} takes less time: {values}. --preset uses it.")
    if dry_run:
        print_json(plan_as_json(plan.spec)) if json else print(describe_plan(plan.spec))
        return
    start_and_follow(plan.spec.id, lambda: start_attack(plan.spec, plan.attack), detach=detach, json=json)


def _cluster_devices(shards: int | None, ray: str | None, devices: str | None) -> str:
    """Return `--shards` and `--ray` as the value of `--devices`. Raises a usage error unless both are given, alone."""
    if shards is None or ray is None:
        raise typer.BadParameter("give --shards and --ray together.", param_hint="--shards")
    if devices is not None:
        raise typer.BadParameter("cannot be used together with --devices.", param_hint="--shards")
    if ray in ("local", "none"):
        raise typer.BadParameter("name a cluster. On one machine, --devices shares a run.", param_hint="--ray")
    check_cluster(ray)
    return f"{cluster_device(ray)}*{shards}"


def watch(run: Run = "latest", plain: Plain = False, json: Json = False) -> None:
    """Watch a run until it is over.

    In a terminal its screen opens, otherwise a status line is printed. Leaving does not touch the run.
    """
    folder = run_folder(run)
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        show(HarnessApp(watched=folder))
        return
    follow(folder, json=json)


def stop(run: Run, json: Json = False) -> None:
    """Stop a run. Its guesses are kept; `resume` continues it."""
    folder = run_folder(run)
    status = stop_run(folder)
    print_json(run_summary(folder).as_json()) if json else print(f"{folder.id}: {status}")


def resume(run: Run, detach: Detach = False, json: Json = False) -> None:
    """Continue a run that was stopped, crashed or lost.

    It continues within what is left of its budget. Exit codes are those of `harness run`.
    """
    folder = run_folder(run)
    resume_run(folder, weights_sha256=current_weights(folder.spec()))
    follow_or_detach(folder, detach=detach, json=json)
