"""`harness demo`: the shipped baseline attack on the bundled target, with the preset of the demo round."""

from harness.cli.options import DeviceOptions, Json, Plain, RunOptions, Seed
from harness.cli.output import is_terminal
from harness.cli.resolving import resolve_run
from harness.cli.watching import follow_or_detach
from harness.jobs.attack.planning import start_attack


def demo(plain: Plain = False, seed: Seed = 0, json: Json = False) -> None:
    """Run the baseline attack on the bundled demo target.

    In a terminal its screen opens, otherwise a status line is printed.
    """
    plan = resolve_run("baseline", "demo", RunOptions(seed=seed), DeviceOptions(), uses_preset=True)
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        # Before the run starts, so that bad settings are reported first.
        app = HarnessApp()
        app.watched = start_attack(plan.spec, plan.attack)
        show(app)
        return
    follow_or_detach(start_attack(plan.spec, plan.attack), detach=False, json=json)
