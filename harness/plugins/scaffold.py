"""Write a new attack, which runs unchanged: one file, or a project that can be installed and published."""

import keyword
from pathlib import Path

from harness.core.errors import HarnessError, UsageError
from harness.core.files import remove_tree, write_export
from harness.core.text import shorten
from harness.plugins.declarations import NAME
from harness.plugins.discovery import find_attacks

_SOURCE = '''"""Sample at a low temperature and rank likely suffixes first. (Describe your attack here, in one line.)

Then explain why it should find memorized text, and what you compare it with.
"""

from collections.abc import Iterator

from harness import Attack, Context, Field, Guesses, Params, Policy


class {stem}Params(Params):
    """Each field can be set with `--set name=value` and in the form of the screen, and is recorded with the run."""

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
            yield Guesses(batch.ids[drawn.row], drawn.suffixes, score=drawn.token_logprobs.mean(axis=1))
'''


_TEMPLATES = Path(__file__).parent / "package_template"
_PROJECT_FILES = {
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "gitignore.in": ".gitignore",
    "test.py.in": "tests/test_@NAME@.py",
    "test.yml.in": ".github/workflows/test.yml",
}
"""The path of each template's file in the project."""


def new_attack(name: str, folder: Path) -> Path:
    """Write a new attack into `folder`, which is created if it is missing. Return the path of the file.

    Raises HarnessError if the name is not valid, the file exists, or the directory is not writable.
    """
    _require_name(name)
    path = folder / f"{name}.py"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            raise HarnessError(f"{path} already exists. Choose another name or another --dir.")
        write_export(path, _source_of(name))
    except OSError as error:
        raise HarnessError(f"{path} cannot be written ({error.strerror}).") from None
    return path


def new_package(name: str, folder: Path) -> Path:
    """Write a project that contains a new attack into a new directory in `folder`. Return the directory.

    The project has the attack's source, its entry point, a test, and a workflow that runs the test. Raises HarnessError
    if the name is not valid, the directory exists, or it cannot be written (nothing of it stays).
    """
    _require_name(name)
    if keyword.iskeyword(name):
        raise UsageError(f"{name!r} is a keyword of Python, so no module can have this name. Choose another one.")
    if any(one.name == name and one.origin == "shipped" for one in find_attacks()):
        raise UsageError(
            f"{name!r} is an attack of the harness, which comes before installed ones. Choose another name."
        )
    module = f"harness_attack_{name}"
    names = {"@NAME@": name, "@MODULE@": module, "@DISTRIBUTION@": module.replace("_", "-")}
    project = folder / names["@DISTRIBUTION@"]
    files = {path: (_TEMPLATES / template).read_text(encoding="utf-8") for template, path in _PROJECT_FILES.items()}
    files |= {
        f"src/{module}/__init__.py": f'"""The attack {name} for extraction-harness."""\n',
        f"src/{module}/{name}.py": _source_of(name),
        f"src/{module}/py.typed": "",
    }
    try:
        project.mkdir(parents=True)
    except FileExistsError:
        raise HarnessError(f"{project} already exists. Choose another name or another --dir.") from None
    except OSError as error:
        raise HarnessError(f"{project} cannot be created ({error.strerror}).") from None
    try:
        for path, text in files.items():
            file = project / _filled(path, names)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_export(file, _filled(text, names))
    except OSError as error:
        remove_tree(project)
        raise HarnessError(f"{project} cannot be written ({error.strerror}).") from None
    return project


def _require_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{shorten(name)!r} is not a valid name. Use lower-case letters, digits and underscores, a letter first."
        )


def _source_of(name: str) -> str:
    return _SOURCE.format(stem="".join(part.capitalize() for part in name.split("_")), name=name)


def _filled(text: str, names: dict[str, str]) -> str:
    for placeholder, value in names.items():
        text = text.replace(placeholder, value)
    return text
