"""`harness report`: one HTML page about runs of one round."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Force, Json, Redact, Runs, check_output_file, write_output
from harness.cli.output import print_json, sanitize
from harness.core.errors import UsageError
from harness.runs.folder import run_folder


def report(
    runs: Runs,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The .html file to write.", show_default=True)
    ] = Path("report.html"),
    redact: Redact = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write an HTML page about one or several runs.

    The page holds scores, curves, a comparison and examples, and needs no other file.
    """
    from harness.submit.report import report_page

    if out.suffix != ".html":
        raise UsageError(f"{out}: a report is an .html file. Choose another name.")
    check_output_file(out, force=force)
    folders = [run_folder(name) for name in runs]
    write_output(out, report_page(folders, redact=redact))
    if json:
        print_json({"path": str(out.absolute()), "runs": [folder.id for folder in folders]})
    else:
        print(sanitize(str(out)))
