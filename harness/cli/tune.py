"""`harness tune`: search an attack's parameters on folds of the training examples."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.completion import attack_names, tuning_names
from harness.cli.options import (
    Attacks,
    Budget,
    Device,
    Dtype,
    Json,
    Round,
    Seed,
    Settings,
    Target,
    Threads,
    round_or_default,
)
from harness.cli.output import sanitize, say

if TYPE_CHECKING:
    from harness.plugins.parameter_space import Span
    from harness.runs.folder import RunFolder
    from harness.runs.tuning import Tuning

_POLL_SECONDS = 0.2
_FOLDS = ("fold0of5", "fold1of5")


def tune(
    context: typer.Context,
    attack: Annotated[
        str | None, typer.Argument(metavar="ATTACK", help="Name of an attack.", autocompletion=attack_names)
    ] = None,
    round_: Round = None,
    runs: Annotated[int, typer.Option(min=1, help="Number of runs in total; the first use the defaults.")] = 20,
    fold: Annotated[
        list[str] | None,
        typer.Option(help="Fold of the training examples; repeatable.  [default: fold0of5 and fold1of5]"),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUES", help="Parameter to search: NAME=LOW..HIGH or NAME=A,B,C; repeatable."),
    ] = None,
    set_: Settings = None,
    budget: Budget = None,
    target: Target = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Attack only the first N examples of the fold.")] = None,
    seed: Seed = 0,
    device: Device = "auto",
    dtype: Dtype = "auto",
    threads: Threads = None,
    attacks: Attacks = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="TUNING", help="Continue a tuning up to --runs runs.", autocompletion=tuning_names),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List all tunings.")] = False,
    json: Json = False,
) -> None:
    """Search an attack's parameters on training examples.

    Each setting is run on one fold after the other. Once four settings were run on every fold, a setting that falls
    behind their median gets no further fold. The answers of the round are never used: run the best setting on it
    afterwards. `harness show TUNING` prints the settings tried, `harness runs rm TUNING` deletes a tuning.
    """
    from harness.cli.tunings import print_tuning, print_tunings, space_and_defaults
    from harness.core.errors import HarnessError
    from harness.plugins.parameter_space import settings_of
    from harness.runs.folder import new_run_id
    from harness.runs.tuning import (
        Tuning,
        best_of,
        require_optuna,
        runs_of,
        settings_tried,
        tuning_named,
    )

    if list_:
        print_tunings(json=json)
        return
    wanted: dict[str, Any] = {
        "attack": attack,
        "round": round_,
        "folds": tuple(dict.fromkeys(fold or _FOLDS)),
        "settings": tuple(set_ or ()),
        "vary": tuple(vary or ()),
        "seed": seed,
    }
    options = {
        "budget": budget,
        "target": target,
        "limit": limit,
        "device": device,
        "dtype": dtype,
        "threads": threads,
        "attacks": None if attacks is None else str(attacks.absolute()),
    }
    if resume is not None:
        tuning = tuning_named(resume)
        _refuse_other_options(context, tuning, wanted | options)
    elif attack is None:
        raise typer.BadParameter("name an attack, or use --resume TUNING.", param_hint="ATTACK")
    else:
        wanted["round"] = round_or_default(round_)
        tuning = Tuning(id=new_run_id(f"tune-{attack}"), created_at=time.time(), options=options, **wanted)
    space, defaults = space_and_defaults(tuning)
    require_optuna()
    say(f"tuning {tuning.id} · {', '.join(f'{name} {span.in_words}' for name, span in space.items())}")
    try:
        _run_until(runs, tuning, space, defaults, is_new=resume is None)
    except KeyboardInterrupt:
        say(f"`harness tune --resume {tuning.id} --runs {runs}` continues the tuning. A run in progress goes on.")
        raise typer.Exit(130) from None
    best = best_of(settings_tried(space, runs_of(tuning.id)))
    if best is None and not json:
        raise HarnessError(f"no setting of {tuning.id} was run on its folds. `harness runs` lists the runs.")
    print_tuning(tuning, json=json)
    if best is not None:
        words = ["harness", "run", tuning.attack, "--round", tuning.round]
        for setting in (*tuning.settings, *settings_of(space, best.params)):
            words += ["--set", setting]
        say(f"best: {sanitize(shlex.join(words))}")


def _refuse_other_options(context: typer.Context, tuning: "Tuning", given: dict[str, Any]) -> None:
    """Raise a usage error if an option was given whose value is not that of the tuning to be continued."""
    recorded = {**tuning.model_dump(), **tuning.options}
    parameters = {"round": "round_", "folds": "fold", "settings": "set_"}
    for name, value in given.items():
        source = context.get_parameter_source(parameters.get(name, name))
        if source is not None and source.name == "COMMANDLINE" and recorded[name] != value:
            raise typer.BadParameter(
                f"{tuning.id} was started with {name} {recorded[name]}. Remove {name}, or start a new tuning.",
                param_hint="--resume",
            )


def _run_until(
    runs: int, tuning: "Tuning", space: "dict[str, Span]", defaults: dict[str, Any] | None, *, is_new: bool
) -> None:
    """Run one setting after the other until the tuning has `runs` runs, or every setting was tried.

    The record of a new tuning is written once its first run is resolved, so that a usage error leaves none.
    """
    from harness.cli.resolving import current_weights, resolve_run
    from harness.cli.tunings import recall_text
    from harness.core.times import format_duration
    from harness.jobs.attack.planning import start_attack
    from harness.runs.launch import resume_run
    from harness.runs.status import Status
    from harness.runs.summary import run_status
    from harness.runs.tuning import begin_tuning, next_step, runs_of

    for run in runs_of(tuning.id):
        if run_status(run.folder) in (Status.LOST, Status.STOPPED):
            resume_run(run.folder, weights_sha256=current_weights(run.spec))
        _wait_for_end(run.folder)
    first, began_at = len(runs_of(tuning.id)), time.monotonic()
    while len(tried := runs_of(tuning.id)) < runs:
        step = next_step(space, defaults, tried, tuning.folds, seed=tuning.seed)
        if step is None:
            say(f"every setting was tried after {len(tried)} runs.")
            return
        options = dict(tuning.options)
        directory = options.pop("attacks")
        plan = resolve_run(
            tuning.attack,
            round_name=f"{tuning.round}:{step.fold}",
            settings=[*tuning.settings, *step.settings],
            seed=tuning.seed,
            attacks=None if directory is None else Path(directory),
            **options,
        )
        if is_new:
            begin_tuning(tuning)
            is_new = False
        folder = start_attack(plan.spec.model_copy(update={"parent": tuning.id}), plan.attack)
        _wait_for_end(folder)
        recall = recall_text(runs_of(tuning.id)[-1].recall)
        done = len(tried) + 1
        left = format_duration((time.monotonic() - began_at) / (done - first) * (runs - done))
        line = f"{done} of {runs}: {sanitize(' '.join(step.settings))} · {step.fold} · recall {recall} · {folder.id}"
        say(line + (f" · about {left} left" if done < runs else ""))


def _wait_for_end(folder: "RunFolder") -> None:
    from harness.runs.summary import run_status

    while not run_status(folder).is_over:
        time.sleep(_POLL_SECONDS)
