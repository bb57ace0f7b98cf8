"""`harness demo`: the shipped baseline attack on the bundled target."""

from harness.cli.options import Json, Plain, Seed
from harness.cli.output import is_terminal, say

TRIALS = 4
"""Takes half a minute on two cores, and extracts a third of the examples."""


def demo(plain: Plain = False, seed: Seed = 0, json: Json = False) -> None:
    """Run the baseline attack on the bundled demo target.

    In a terminal its screen opens, otherwise a status line is printed.
    """
    from harness.cli.options import DeviceOptions, RunOptions
    from harness.cli.resolving import resolve_run
    from harness.jobs.attack.planning import start_attack

    plan = resolve_run("baseline", "demo", RunOptions(settings=[f"trials={TRIALS}"], seed=seed), DeviceOptions())
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        # Before the run starts, so that bad settings are reported first.
        app = HarnessApp()
        app.watched = start_attack(plan.spec, plan.attack)
        show(app)
        return
    from harness.cli.watching import follow

    folder = start_attack(plan.spec, plan.attack)
    say(f"run {folder.id} · Ctrl-C leaves it running")
    follow(folder, json=json)
