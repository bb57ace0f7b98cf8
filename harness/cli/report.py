"""`harness report`: one page about one run, or several of one round."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import run_names
from harness.cli.output import sanitize


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="One run or more of one round, by id, unambiguous start, or `latest`.",
            metavar="RUN…",
            autocompletion=run_names,
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The .html file to write.")] = Path(
        "report.html"
    ),
    redact: Annotated[
        bool, typer.Option("--redact", help="Tell guesses and answers by their length and hash alone.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
) -> None:
    """Write one self-contained page: scores, curves, comparison, examples, and what each run was."""
    from harness.core.errors import HarnessError
    from harness.core.files import write_export
    from harness.runs.folder import run_folder
    from harness.submit.report import report_page

    if out.suffix != ".html":
        raise HarnessError(f"{out}: a report is written as .html.")
    if out.exists() and not force:
        raise HarnessError(f"{out} is there already; --force replaces it.")
    if not out.absolute().parent.is_dir():
        raise HarnessError(f"{out.parent}: no such folder.")
    page = report_page([run_folder(name) for name in runs], redact=redact)
    try:
        write_export(out, page)
    except OSError as error:
        raise HarnessError(f"{out}: cannot be written ({error.strerror}).") from None
    print(sanitize(str(out)))
