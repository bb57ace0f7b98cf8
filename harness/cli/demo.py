"""`harness demo`: the shipped baseline on the bundled target, to see everything work."""

from typing import Annotated

import typer

from harness.cli.output import is_terminal, say

TRIALS = 4
"""Half a minute on two cores, and a third of the examples."""


def demo(
    plain: Annotated[bool, typer.Option("--plain", help="One live line, where there is a terminal too.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False,
) -> None:
    """Run the baseline on the demo round: with the screen in a terminal, headless elsewhere."""
    from harness.cli.resolving import resolved_run
    from harness.jobs.attack.planning import start_attack

    plan = resolved_run(
        "baseline",
        round_name="demo",
        target=None,
        revision=None,
        budget=None,
        settings=[f"trials={TRIALS}"],
        seed=seed,
        limit=None,
        device="auto",
        dtype="auto",
        threads=None,
        attacks=None,
    )
    if not plain and not json and is_terminal():
        from harness.tui.app import HarnessApp, show

        # Before the run begins: settings that do not hold are told first.
        app = HarnessApp()
        app.watched = start_attack(plan.spec, plan.attack)
        show(app)
        return
    from harness.cli.watching import follow

    folder = start_attack(plan.spec, plan.attack)
    say(f"run {folder.id} · Ctrl-C leaves it running")
    follow(folder, json=json)
