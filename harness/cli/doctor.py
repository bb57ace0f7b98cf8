"""`harness doctor`: what a bug report needs."""

import typer

from harness.cli.options import Json
from harness.cli.output import print_json, sanitize

_NEEDED = ("runs", "data", "cache", "sandbox")
"""Findings without which runs do not work. Advice about anything else is a recommendation."""


def doctor(json: Json = False) -> None:
    """Check this machine and print its set-up.

    Prints versions, device, memory, disk, directories and sandbox. Exit code 1: something that runs need is missing.
    """
    from harness.engine.devices import resolved_device
    from harness.supervisor.checkup import Finding, as_json, findings

    report = [*findings(), Finding("device", resolved_device())]
    missing = [finding.name for finding in report if finding.advice and finding.name.strip() in _NEEDED]
    if json:
        print_json({"missing": missing, "findings": as_json(report)})
    else:
        width = max(len(finding.name) for finding in report)
        for finding in report:
            print(f"{finding.name:<{width}}  {sanitize(finding.value)}")
            if finding.advice:
                print(f"{'':<{width}}  → {sanitize(finding.advice)}")
    if missing:
        raise typer.Exit(1)
