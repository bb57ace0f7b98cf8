"""`harness doctor`: what a bug report needs."""

from typing import Annotated

import typer

from harness.cli.output import print_json, sanitize


def doctor(json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False) -> None:
    """Print versions, device, memory, disk, paths and the sandbox that this machine offers."""
    from harness.engine.devices import resolved_device
    from harness.supervisor.checkup import Finding, as_json, findings

    report = [*findings(), Finding("device", resolved_device())]
    if json:
        print_json(as_json(report))
        return
    width = max(len(finding.name) for finding in report)
    for finding in report:
        print(f"{finding.name:<{width}}  {sanitize(finding.value)}")
        if finding.advice:
            print(f"{'':<{width}}  → {sanitize(finding.advice)}")
