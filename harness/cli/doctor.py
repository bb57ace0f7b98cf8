"""`harness doctor`: what a bug report needs."""

import typer

from harness.cli.options import Json
from harness.cli.output import print_json, sanitize


def doctor(json: Json = False) -> None:
    """Check this machine and print its set-up.

    Prints versions, device, memory, disk, directories and sandbox. Exit code 1: something that runs need is missing.
    """
    from harness.cli.machine_report import Finding, as_json, findings
    from harness.engine.devices import resolve_device

    report = [*findings(), Finding("device", resolve_device())]
    missing = [finding.name for finding in report if finding.is_missing]
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
