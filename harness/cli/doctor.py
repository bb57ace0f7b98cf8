"""`harness doctor`: what a bug report needs."""

from typing import Annotated

import typer

from harness.cli.output import print_json, sanitize


def doctor(json: Annotated[bool, typer.Option("--json", help="One line of JSON on stdout.")] = False) -> None:
    """Print versions, device, memory, disk, paths and the sandbox that this machine offers."""
    from harness.cli.machine_report import Finding, as_json, findings
    from harness.engine.devices import resolve_device

    report = [*findings(), Finding("device", resolve_device())]
    if json:
        print_json(as_json(report))
    else:
        width = max(len(finding.name) for finding in report)
        for finding in report:
            print(f"{finding.name:<{width}}  {sanitize(finding.value)}")
            if finding.advice:
                print(f"{'':<{width}}  → {sanitize(finding.advice)}")
    if any(finding.is_missing for finding in report):
        raise typer.Exit(1)
