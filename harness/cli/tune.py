"""`harness tune`: search an attack's parameters on folds of the training examples."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.completion import attack_names, round_names
from harness.cli.output import align_columns, print_json, sanitize, say

if TYPE_CHECKING:
    from harness.plugins.parameter_space import Span
    from harness.runs.folder import RunFolder
    from harness.runs.tuning import Setting, Tuning

_POLL_SECONDS = 0.2
_FOLDS = ("fold0of5", "fold1of5")


def tune(
    attack: Annotated[
        str | None, typer.Argument(metavar="ATTACK", help="The attack's name.", autocompletion=attack_names)
    ] = None,
    round_: Annotated[
        str,
        typer.Option(
            "--round", "-r", metavar="ROUND", help="Whose training examples it is tuned on.", autocompletion=round_names
        ),
    ] = "demo",
    runs: Annotated[int, typer.Option(min=1, help="Runs in all, the first ones with the attack's defaults.")] = 20,
    fold: Annotated[
        list[str] | None,
        typer.Option(help="A fold of the training examples to attack; repeatable. fold0of5 and fold1of5 by default."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUES", help="A parameter to search: NAME=LOW..HIGH or NAME=A,B,C; repeatable."),
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A parameter that stays as it is.")
    ] = None,
    budget: Annotated[str | None, typer.Option(help="Wall clock of each run, such as 10m.")] = None,
    target: Annotated[str | None, typer.Option(help="A hub id or a folder, instead of the round's target.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Attack the first N examples of the fold only.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw, and of the search.")] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")] = "auto",
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all usable cores by default.")] = None,
    attacks: Annotated[Path | None, typer.Option(help="A folder of attacks that comes before all others.")] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="TUNING", help="Go on with a tuning, up to --runs runs; the rest is as it was."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """Search an attack's parameters, as runs under one parent, on training examples alone.

    Each setting is tried on one fold after the other, and given up when it falls behind the median of those that
    went through every fold, once there are four.
    Nothing is tuned on the answers of the round itself: run the best settings on it afterwards.
    """
    from harness.core.errors import HarnessError
    from harness.plugins.discovery import attack_named
    from harness.plugins.parameter_space import settings_of, space_of
    from harness.plugins.schema import fetch_schema
    from harness.runs.folder import new_run_id
    from harness.runs.tuning import (
        Tuning,
        begin_tuning,
        best_of,
        require_optuna,
        runs_of,
        settings_tried,
        tuning_named,
    )

    if resume is not None:
        tuning = tuning_named(resume)
    elif attack is None:
        raise typer.BadParameter("name an attack, or --resume TUNING")
    else:
        tuning = Tuning(
            id=new_run_id(f"tune-{attack}"),
            created_at=time.time(),
            attack=attack,
            round=round_,
            folds=tuple(dict.fromkeys(fold or _FOLDS)),
            settings=tuple(set_ or []),
            vary=tuple(vary or []),
            seed=seed,
            options={
                "budget": budget,
                "target": target,
                "limit": limit,
                "device": device,
                "dtype": dtype,
                "threads": threads,
                "attacks": None if attacks is None else str(attacks.absolute()),
            },
        )
    folder = tuning.options["attacks"]
    file = attack_named(tuning.attack, None if folder is None else Path(folder))
    schema = fetch_schema(file.path, digest=file.sha256)
    space = space_of(schema.schema, tuning.settings, tuning.vary)
    require_optuna()
    if resume is None:
        begin_tuning(tuning)
    say(f"tuning {tuning.id} · {', '.join(f'{name} {span.in_words}' for name, span in space.items())}")
    try:
        _go_on(tuning, space, schema.params, runs)
    except KeyboardInterrupt:
        say(f"\nharness tune --resume {tuning.id} --runs {runs} goes on from here; a run that is going on goes on.")
        raise SystemExit(130) from None
    past = settings_tried(space, runs_of(tuning.id))
    best = best_of(past)
    if json:
        print_json(
            {
                "id": tuning.id,
                "settings": [_as_json(one) for one in past],
                "best": None if best is None else best.params,
            }
        )
        return
    if best is None:
        raise HarnessError(f"no setting of {tuning.id} came through its folds; harness runs lists the runs.")
    print(align_columns([(*space, *tuning.folds, "recall"), *(_cells(one, tuning.folds) for one in past)]))
    words = [word for setting in (*tuning.settings, *settings_of(space, best.params)) for word in ("--set", setting)]
    say(f"best: {sanitize(shlex.join(['harness', 'run', tuning.attack, '--round', tuning.round, *words]))}")


def _go_on(tuning: "Tuning", space: "dict[str, Span]", defaults: dict[str, Any] | None, runs: int) -> None:
    """Runs one after the other, until there are `runs` of them."""
    from harness.cli.resolving import resolved_run, weights_sha256_now
    from harness.core.times import format_duration
    from harness.jobs.attack.planning import start_attack
    from harness.runs.launch import resume_run
    from harness.runs.status import Status
    from harness.runs.summary import run_status
    from harness.runs.tuning import next_step, runs_of

    for one in runs_of(tuning.id):
        status = run_status(one.folder)
        if status in (Status.LOST, Status.STOPPED):
            resume_run(one.folder, weights_sha256=weights_sha256_now(one.spec))
        _wait_for(one.folder)
    begun, began_at = len(runs_of(tuning.id)), time.monotonic()
    while len(tried := runs_of(tuning.id)) < runs:
        step = next_step(space, defaults, tried, tuning.folds, seed=tuning.seed)
        if step is None:
            say(f"every setting was tried; {len(tried)} runs were enough.")
            return
        options = dict(tuning.options)
        folder = options.pop("attacks")
        plan = resolved_run(
            tuning.attack,
            round_name=f"{tuning.round}:{step.fold}",
            revision=None,
            settings=[*tuning.settings, *step.settings],
            seed=tuning.seed,
            attacks=None if folder is None else Path(folder),
            **options,
        )
        started = start_attack(plan.spec.model_copy(update={"parent": tuning.id}), plan.attack)
        _wait_for(started)
        recall = _figure(runs_of(tuning.id)[-1].recall)
        told = f"{sanitize(' '.join(step.settings))} · {step.fold} · recall {recall} · {started.id}"
        made = len(tried) + 1
        left = format_duration((time.monotonic() - began_at) / (made - begun) * (runs - made))
        say(f"{made} of {runs}: {told}" + (f" · about {left} left" if made < runs else ""))


def _wait_for(folder: "RunFolder") -> None:
    from harness.runs.summary import run_status

    while not run_status(folder).is_over:
        time.sleep(_POLL_SECONDS)


def _cells(one: "Setting", folds: tuple[str, ...]) -> tuple[str, ...]:
    """The setting's values, what each fold has given (nothing where it was given up before), and their mean."""
    reached = {run.fold: _figure(run.recall) for run in one.runs}
    return (
        *(sanitize(str(value)) for value in one.params.values()),
        *(reached.get(fold, "") for fold in folds),
        _figure(one.recall),
    )


def _figure(recall: float | None) -> str:
    return "–" if recall is None else f"{recall:.3f}"


def _as_json(one: "Setting") -> dict[str, Any]:
    return {
        "params": one.params,
        "recall_at_cap": one.recall,
        "runs": [{"run": run.folder.id, "fold": run.fold, "recall_at_cap": run.recall} for run in one.runs],
    }
