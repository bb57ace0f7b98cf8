"""Write a new attack, which runs unchanged."""

from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.files import file_errors, write_export
from harness.core.text import shorten
from harness.plugins.declarations import NAME

_SOURCE = '''"""Sample at a low temperature and rank likely suffixes first. (Describe your attack here, in one line.)

Then explain why it should find memorized text, and what you compare it with.
"""

from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params, Policy


class {stem}Params(Params):
    """Each field can be set with `--set name=value` and in the form of the TUI, and is recorded with the run."""

    trials: int = Field(4, ge=1, description="Suffixes sampled per prefix.")
    temperature: float = Field(0.5, gt=0, description="Sampling temperature.")


class {stem}Attack(Attack[{stem}Params]):
    name = "{name}"
    reference = ""  # The publication of the method.

    def run(self, context: Context) -> Iterator[Guesses]:
        # With several loops over batches, announce each stage here: the ETA then includes the later ones.
        policy = Policy(temperature=self.params.temperature)
        for batch in context.batches(trials=self.params.trials):
            drawn = context.target.sample(batch.prefixes, policy, trials=batch.trials, seed=batch.seed)
            # The best guess of each example is submitted. Guesses with higher scores are submitted earlier.
            # With the trial in which a suffix was first drawn, reports show the score after 1, 2, 4 ... trials.
            score, trial = drawn.token_logprobs.mean(axis=1), batch.trial(drawn.first)
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score, trial)
'''


def new_attack(name: str, folder: Path) -> Path:
    """Write a new attack into `folder`, which is created if it is missing. Return the path of the file.

    Raises HarnessError if the name is not valid, the file exists, or the directory is not writable.
    """
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{shorten(name)!r} is not a valid name. Use lower-case letters, digits and underscores, a letter first."
        )
    path = folder / f"{name}.py"
    with file_errors(path, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise HarnessError(f"{path} already exists. Choose another name or another --dir.")
        stem = "".join(part.capitalize() for part in name.split("_"))
        write_export(path, _SOURCE.format(stem=stem, name=name))
    return path
