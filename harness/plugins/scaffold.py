"""The first file of a new attack: it runs as it is, and its author changes it line by line."""

from pathlib import Path

from harness.core.errors import HarnessError
from harness.core.files import write_atomically
from harness.core.text import shorten
from harness.plugins.declarations import NAME

_SOURCE = '''"""Samples at a low temperature and prefers likely suffixes: say here, in a line, what your attack does.

Say below it why that should find memorized text, and against what you compare it.
"""

from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params, Policy


class {stem}Params(Params):
    """Each field is a `--set name=value`, a field of the screen's form and a line of the run's record."""

    trials: int = Field(4, ge=1, description="Suffixes sampled per prefix.")
    temperature: float = Field(0.5, gt=0, description="Divides the logits; below 1, likely tokens become likelier.")


class {stem}Attack(Attack[{stem}Params]):
    name = "{name}"
    reference = ""  # Where the method was published.

    def run(self, context: Context) -> Iterator[Guesses]:
        policy = Policy(temperature=self.params.temperature)
        for batch in context.batches(trials=self.params.trials):
            drawn = context.target.sample(batch.prefixes, policy, trials=batch.trials, seed=batch.seed)
            # Of an example's guesses the best is submitted, and a higher score is submitted earlier.
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score=drawn.token_logprobs.mean(axis=1))
'''


def new_attack(name: str, folder: Path) -> Path:
    """Write the scaffold of an attack called `name` into `folder`, made where it is missing; its path.

    Raises HarnessError when the name is not valid, the file is there already, or the folder cannot be written.
    """
    if not NAME.fullmatch(name):
        raise HarnessError(
            f"{shorten(name)!r} names no attack: use lower-case letters, digits and underscores, a letter first."
        )
    path = folder / f"{name}.py"
    stem = "".join(part.capitalize() for part in name.split("_"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise HarnessError(f"{path}: is there already; choose another name or another --dir.")
        write_atomically(path, _SOURCE.format(stem=stem, name=name))
    except OSError as error:
        raise HarnessError(f"{path}: cannot be written ({error.strerror}).") from None
    return path
