"""`harness sweep`: many runs from one file."""

from harness.cli.sweep_show import list_, show
from harness.cli.typer_classes import CommandLine

app = CommandLine(name="sweep", no_args_is_help=True)
app.command("show")(show)
app.command("list")(list_)


@app.callback()
def sweep() -> None:
    """Run many runs from one file."""
