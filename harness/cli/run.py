"""Commands that start a run of an attack: `harness run` and `harness demo`."""

import typer
from typer import Option

from harness.cli.completion import run_names
from harness.cli.descriptions import describe_plan, plan_as_json
from harness.cli.options import Detach, Json, OptionalAttackName, Plain, Seed
from harness.cli.output import is_terminal, print_json, sanitize, say
from harness.cli.resolving import resolve_run
from harness.cli.watching import interrupts_after_start, start_and_follow
from harness.core.extras import install_sentence, missing_module
from harness.core.parameters import setting_text
from harness.core.rounds import preset_text
from harness.core.run_request import RunRequest
from harness.core.text import shorten
from harness.plugins.discovery import attack_named
from harness.runs.folder import RunFolder, run_folder
from harness.runs.planning import attack_again
from harness.runs.specs import AttackSpec


def run(
    attack: OptionalAttackName = None,
    *,
    request: RunRequest,
    like: str | None = Option(
        None, metavar="RUN", help="Use this run's settings as defaults.", autocompletion=run_names
    ),
    dry_run: bool = Option(False, "--dry-run", help="Check everything and start nothing."),
    detach: Detach = False,
    json: Json = False,
) -> None:
    """Run an attack on a round.

    After Ctrl-C the run continues. Exit code 3: the run ran out of time or was stopped. `--like RUN` takes from RUN the
    attack, its parameters and all options that you do not give.
    """
    if attack is not None:
        request = request.changed(attack=attack)
    if like is not None:
        request = request_like(run_folder(like, AttackSpec), request)
    elif attack is None:
        raise typer.BadParameter("name an attack, or use --like RUN.", param_hint="ATTACK")
    plan = resolve_run(request)
    if like is not None:
        _say_other_params(plan.spec, run_folder(like, AttackSpec).attack_spec())
    if plan.unused_preset and like is None:
        values = sanitize(preset_text(plan.unused_preset))
        say(f"The round's preset for {request.attack} takes less time: {values}. --preset uses it.")
    if plan.spec.round.forbidden_models:
        _say_forbidden_model(plan.spec)
    if dry_run:
        print_json(plan_as_json(plan.spec)) if json else print(describe_plan(plan.spec))
        return
    start_and_follow(plan.spec.id, plan.start, detach=detach, json=json)


def _say_other_params(spec: AttackSpec, recorded: AttackSpec) -> None:
    """Print the parameters that are not those of the recorded run, because a default or a preset has changed."""
    names = recorded.params.keys() - spec.request.params.keys() if spec.attack.name == recorded.attack.name else set()
    changes = [
        f"{name} is {setting_text(spec.params.get(name))}, and was {setting_text(recorded.params[name])}"
        for name in sorted(names)
        if spec.params.get(name) != recorded.params[name]
    ]
    if changes:
        say(sanitize(f"Defaults have changed since {recorded.id} ran: {'; '.join(changes)}. --set sets them."))


def _say_forbidden_model(spec: AttackSpec) -> None:
    """Print that the run uses a model that its round forbids, before it spends the budget."""
    # Imported here: it loads Jinja.
    from harness.submit.code_folder import other_models

    if (forbidden := spec.round.forbidden_model(other_models(spec))) is not None:
        say(
            f"{sanitize(spec.round.name)} forbids the model {sanitize(shorten(forbidden))}: the run cannot be packaged."
        )


def request_like(folder: RunFolder, typed: RunRequest) -> RunRequest:
    """Return the request of a recorded run, with what was given on the command line instead.

    Raises HarnessError if the run is not one of an attack, or if the options do not fit together.
    """
    recorded = folder.attack_spec().request
    request = typed.like(recorded)
    if request.attack == recorded.attack:
        attack, attacks, sentence = attack_again(folder, request.attacks)
        if sentence:
            say(sanitize(sentence))
    else:
        is_gone = request.attacks is not None and not request.attacks.is_dir()
        attacks = None if is_gone and "attacks" not in typed.model_fields_set else request.attacks
        attack = attack_named(request.attack, attacks)
    if not attack.uses_target:
        request = typed.like(recorded.without_target())
    return request if attacks == request.attacks else request.changed(attacks=attacks)


def demo(plain: Plain = False, seed: Seed = 0, json: Json = False) -> None:
    """Run the baseline attack on the bundled demo target.

    In a terminal the TUI opens, otherwise a status line is printed. Without torch, recorded guesses of the attack
    are replayed, and the seed has no effect.
    """
    notice = None
    if (missing := missing_module("torch")) is None:
        plan = resolve_run(RunRequest(attack="baseline", round="demo", seed=seed, preset=True))
    else:
        from harness.demo import BASELINE_GUESSES

        settings = (f"source={BASELINE_GUESSES}",)
        plan = resolve_run(RunRequest(attack="replay", round="demo", settings=settings, seed=seed))
        notice = (
            f"{missing} is not installed, so this run replays recorded guesses of baseline. {install_sentence('torch')}"
        )
        say(notice)
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        # Before the run starts, so that bad settings are reported first.
        app = HarnessApp(notice=notice)
        with interrupts_after_start(plan.spec.id):
            app.watched = plan.start()
        show(app)
        return
    start_and_follow(plan.spec.id, plan.start, detach=False, json=json)
