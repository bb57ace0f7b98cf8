"""`harness bundle`: submissions as zips, from packaging to the leaderboard."""

from harness.cli.leaderboard import rank
from harness.cli.package import package_code, package_run
from harness.cli.rerun import rerun
from harness.cli.typer_classes import CommandLine
from harness.cli.verify import verify

app = CommandLine(name="bundle", help="Package, verify, run again and rank submissions.", no_args_is_help=True)
app.command("create")(package_run)
app.command("code")(package_code)
app.command("verify")(verify)
app.command("rerun")(rerun)
app.command("rank")(rank)
