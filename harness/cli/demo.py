"""`harness demo`: the shipped baseline attack on the bundled target, with the preset of the demo round."""

from harness.cli.options import DeviceOptions, Json, Plain, RunOptions, Seed
from harness.cli.output import is_terminal, say
from harness.cli.resolving import ResolvedRun, resolve_run
from harness.cli.watching import interrupts_after_start, start_and_follow
from harness.core.extras import install_sentence, missing_module
from harness.jobs.attack.planning import start_attack


def demo(plain: Plain = False, seed: Seed = 0, json: Json = False) -> None:
    """Run the baseline attack on the bundled demo target.

    In a terminal its screen opens, otherwise a status line is printed. Without torch, recorded guesses of the attack
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
