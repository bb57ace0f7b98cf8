"""`harness new`: write a new attack, or draw a round from a corpus."""

import shlex
from pathlib import Path

from typer import Argument, Option

from harness.cli.options import Json
from harness.cli.output import print_json, say
from harness.cli.rounds_make import make_round
from harness.cli.typer_classes import CommandLine
from harness.plugins.scaffold import new_attack

app = CommandLine(name="new", help="Write a new attack, or draw a round from a corpus.", no_args_is_help=True)
app.command("round")(make_round)


@app.command("attack")
def write_attack(
    name: str = Argument(..., metavar="NAME", help="Lower-case letters, digits and underscores."),
    directory: Path = Option(Path("attacks"), "--dir", metavar="DIR", help="Where to write."),
    json: Json = False,
) -> None:
    """Write a new attack that runs as it is."""
    path = new_attack(name, directory)
    option = "" if directory.resolve() == Path("attacks").resolve() else f" --attacks {shlex.quote(str(directory))}"
    say(f"next: harness run {name} --round demo{option}")
    if json:
        print_json({"attack": name, "path": str(path.absolute())})
    else:
        print(path)
