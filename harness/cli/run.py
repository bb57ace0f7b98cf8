"""Commands that start a run of an attack: `harness run` and `harness demo`."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TypeVar

import typer
from typer import Option

from harness.cli.descriptions import describe_plan, plan_as_json
from harness.cli.many_runs import check_cluster
from harness.cli.options import (
    Detach,
    DeviceOptions,
    Devices,
    Group,
    GuessesPerExample,
    Json,
    Limit,
    OptionalAttackName,
    Plain,
    Round,
    RunOptions,
    Seed,
    ShardTarget,
    ShareDevice,
    checked_group,
    round_or_default,
    run_names,
    usage_errors,
)
from harness.cli.output import is_terminal, print_json, sanitize, say
from harness.cli.resolving import TARGET_OPTIONS, ResolvedRun, resolve_run, settings_in
from harness.cli.typer_classes import is_given
from harness.cli.watching import interrupts_after_start, start_and_follow
from harness.core.extras import install_sentence, missing_module
from harness.core.rounds import preset_text
from harness.core.spec import cluster_device
from harness.core.text import shorten
from harness.plugins.discovery import find_attacks
from harness.runs.folder import RunFolder, run_folder
from harness.runs.planning import recorded_options, start_attack
from harness.runs.specs import AttackSpec


def run(
    context: typer.Context,
    attack: OptionalAttackName = None,
    round_: Round = None,
    *,
    options: RunOptions,
    limit: Limit = None,
    guesses_per_example: GuessesPerExample = None,
    compute: DeviceOptions,
    devices: Devices = None,
    shard_target: ShardTarget = False,
    shards: int | None = Option(
        None, min=1, max=1000, help="Number of workers on the Ray cluster of --ray.", rich_help_panel="Cluster"
    ),
    ray: str | None = Option(
        None, metavar="ADDRESS", help="Ray cluster for --shards: HOST:PORT, or `auto`.", rich_help_panel="Cluster"
    ),
    share_device: ShareDevice = False,
    group: Group = None,
    like: str | None = Option(
        None, metavar="RUN", help="Use this run's settings as defaults.", autocompletion=run_names
    ),
    preset: bool = Option(False, "--preset", help="Use the round's preset for the attack; --set takes precedence."),
    dry_run: bool = Option(False, "--dry-run", help="Check everything and start nothing."),
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
    request = RunRequest(attack or "", round_, options, compute, devices, shard_target, limit, guesses_per_example)
    if like is not None:
        request = request_like(run_folder(like, AttackSpec), request, partial(is_given, context))
    elif attack is None:
        raise typer.BadParameter("name an attack, or use --like RUN.", param_hint="ATTACK")
    plan = resolve_run(
        request.attack,
        round_or_default(request.round),
        request.options,
        request.compute,
        limit=request.limit,
        guesses_per_example=request.guesses_per_example,
        devices=request.devices,
        shards_target=request.shard_target,
        shares_device=share_device,
        parent=checked_group(group),
        uses_preset=preset,
    )
    if plan.unused_preset and like is None:
        values = sanitize(preset_text(plan.unused_preset))
        say(f"The round's preset for {request.attack} takes less time: {values}. --preset uses it.")
    if plan.spec.round.forbidden_models:
        _say_forbidden_model(plan.spec)
    if dry_run:
        print_json(plan_as_json(plan.spec)) if json else print(describe_plan(plan.spec))
        return
    start_and_follow(plan.spec.id, lambda: start_attack(plan.spec, plan.attack), detach=detach, json=json)


def _say_forbidden_model(spec: AttackSpec) -> None:
    """Print that the run uses a model that its round forbids, before it spends the budget."""
    # Imported here: it loads Jinja.
    from harness.submit.code_folder import other_models

    if (forbidden := spec.round.forbidden_model(other_models(spec))) is not None:
        say(
            f"{sanitize(spec.round.name)} forbids the model {sanitize(shorten(forbidden))}: the run cannot be packaged."
        )


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


OptionsType = TypeVar("OptionsType", RunOptions, DeviceOptions)


@dataclass(frozen=True)
class RunRequest:
    """The attack, the round and the options of `harness run`; the round is None if it was not given."""

    attack: str
    round: str | None
    options: RunOptions
    compute: DeviceOptions
    devices: str | None
    shard_target: bool
    limit: int | None
    guesses_per_example: int | None


def request_like(folder: RunFolder, typed: RunRequest, is_given: Callable[[str], bool]) -> RunRequest:
    """Return the request of a recorded run, with what was given on the command line instead.

    `is_given` says that for the name of an option. Another attack has other parameters, so with one, those of the run
    are left out. Raises HarnessError if the run is not one of an attack.
    """
    spec = folder.attack_spec()
    recorded = recorded_options(spec)
    name = typed.attack or recorded.attack
    attacks = typed.options.attacks if is_given("attacks") else recorded.attacks
    declared = next((attack for attack in find_attacks(attacks) if attack.name == name), None)
    uses_no_target = declared is not None and not declared.uses_target
    kept = set(TARGET_OPTIONS) if uses_no_target else set()

    def merged(options: OptionsType) -> OptionsType:
        names = {field.name for field in fields(options)} - {"settings", "attacks"} - kept
        return replace(options, **{name: getattr(recorded, name) for name in names if not is_given(name)})

    settings = typed.options.settings
    if name == recorded.attack:
        with usage_errors("--set"):
            params = recorded.params | settings_in(settings or [])
        settings = [f"{name}={text}" for name, text in params.items()]
        if declared is None:
            say(f"attack {name} was not found, so the source that {folder.id} ran is used.")
            attacks = folder.code
        elif declared.sha256 != spec.attack.sha256:
            path = sanitize(str(declared.path))
            say(f"{path} differs from the source that {folder.id} ran, which --attacks {folder.code} uses.")
    return RunRequest(
        attack=name,
        round=typed.round if is_given("round_") else recorded.round,
        options=replace(merged(typed.options), settings=settings, attacks=attacks),
        compute=merged(typed.compute),
        # One device replaces several.
        devices=typed.devices if any(map(is_given, ("devices", "device", "shards"))) else recorded.devices,
        shard_target=typed.shard_target
        if is_given("shard_target") or is_given("device") or uses_no_target
        else recorded.shard_target,
        limit=typed.limit if is_given("limit") else recorded.limit,
        guesses_per_example=typed.guesses_per_example
        if is_given("guesses_per_example")
        else recorded.guesses_per_example,
    )


def demo(plain: Plain = False, seed: Seed = 0, json: Json = False) -> None:
    """Run the baseline attack on the bundled demo target.

    In a terminal the TUI opens, otherwise a status line is printed. Without torch, recorded guesses of the attack
    are replayed, and the seed has no effect.
    """
    missing = missing_module("torch")
    plan = _baseline(seed) if missing is None else _recorded_baseline(seed)
    notice = None
    if missing is not None:
        notice = (
            f"{missing} is not installed, so this run replays recorded guesses of baseline. {install_sentence('torch')}"
        )
        say(notice)
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        # Before the run starts, so that bad settings are reported first.
        app = HarnessApp(notice=notice)
        with interrupts_after_start(plan.spec.id):
            app.watched = start_attack(plan.spec, plan.attack)
        show(app)
        return
    start_and_follow(plan.spec.id, lambda: start_attack(plan.spec, plan.attack), detach=False, json=json)


def _baseline(seed: int) -> ResolvedRun:
    """Return the run of the attack itself."""
    return resolve_run("baseline", "demo", RunOptions(seed=seed), DeviceOptions(), uses_preset=True)


def _recorded_baseline(seed: int) -> ResolvedRun:
    """Return a run of `replay` on the guesses that a run of `baseline` submitted."""
    from harness.demo import BASELINE_GUESSES

    options = RunOptions(settings=[f"source={BASELINE_GUESSES}"], seed=seed)
    return resolve_run("replay", "demo", options, DeviceOptions())
