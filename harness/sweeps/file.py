"""A sweep file: the attacks, parameters, rounds, targets and seeds of a sweep, and the runs that they give."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, create_model

from harness.core.errors import HarnessError, UsageError
from harness.core.inputs import read_bounded_toml, validate_fields
from harness.core.run_request import RunRequest
from harness.core.text import shorten

MAX_RUNS = 100_000
_MAX_FILE_BYTES = 1 << 20
NOT_OF_EACH_RUN = ("attack", "attacks", "round", "target", "seed", "settings", "shards", "ray", "group")
"""Fields of `RunRequest` that a sweep decides for each run, or has once."""
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$"
_WORDS = {"string_pattern_mismatch": "use at most 40 letters, digits, -, _ and ., a letter or digit first"}
Seed = Annotated[int, Field(ge=0)]
_PATH_FIELDS = ("rounds", "targets")


def _value_texts(value: Any) -> tuple[str, ...]:
    """Return a value, or each value of a list, as `--set` takes it."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise ValueError("expected at least one value")
    for item in values:
        if not isinstance(item, str | int | float | bool):
            raise ValueError("expected text, a number, true or false, or a list of these")
    return tuple(str(item).lower() if isinstance(item, bool) else str(item) for item in values)


Values = Annotated[tuple[str, ...], BeforeValidator(_value_texts)]


class SweepFile(BaseModel, frozen=True, extra="forbid"):
    """The content of a sweep file, without the options of each run. Every combination of its values becomes a run."""

    name: str = Field("", pattern=_NAME, description="Part of the sweep's id. The default is the name of the file.")
    attacks: tuple[str, ...] = Field(min_length=1, description="Names of attacks.")
    rounds: tuple[str, ...] = Field(("demo",), min_length=1, description="Names of rounds, or their TOML files.")
    targets: tuple[str, ...] = Field(
        (), description="Hub ids or directories. By default each round has its own target."
    )
    seeds: tuple[Seed, ...] = Field((0,), min_length=1, description="Seeds of the draws.")
    baseline: str | None = Field(
        None, description="Setting that the others are compared with, such as `baseline trials=4` or `greedy`."
    )
    params: dict[str, dict[str, Values]] = Field(
        {},
        description="A table `[params.ATTACK]` has one value, or a list of values, for each parameter that it names.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The values of the options of each run that the file names."""
        return {name: getattr(self, name) for name in self.model_fields_set - SweepFile.model_fields.keys()}


def file_with_options(request: type[RunRequest]) -> type[SweepFile]:
    """Return the class of a sweep file's content: the values that it combines, and the options of each run."""
    options = {
        name: (field.annotation, field) for name, field in request.model_fields.items() if name not in NOT_OF_EACH_RUN
    }
    return create_model("FileWithOptions", __base__=SweepFile, **options)  # type: ignore[call-overload,no-any-return]


SWEEP_FILE = file_with_options(RunRequest)


class SweptRun(BaseModel, frozen=True, extra="forbid"):
    """One run of a sweep: its id, which exists before the run does, and what it is a run of."""

    run: str
    attack: str
    params: dict[str, str]
    """The text of each parameter that the sweep file names for the attack, as `--set` takes it."""
    seed: int
    round: str
    target: str | None
    """The target, None for that of the round and for an attack without one."""

    @property
    def setting(self) -> str:
        """The attack and its parameters, such as `baseline trials=4`: what runs with different seeds share."""
        return " ".join([self.attack, *(f"{name}={text}" for name, text in self.params.items())])


def read_sweep_file(path: Path) -> SweepFile:
    """Return the content of a sweep file. Raises HarnessError, which names file and field, if it is not valid.

    Rounds and targets that are paths are relative to the directory of the file.
    """
    fields = read_bounded_toml(path, limit=_MAX_FILE_BYTES)
    fields.setdefault("name", re.sub(r"[^A-Za-z0-9._-]+|^[._-]+", "-", path.stem).lstrip("-")[:40] or "sweep")
    content = validate_fields(SWEEP_FILE, fields, path, _WORDS)
    for field in ("attacks", "rounds", "targets", "seeds"):
        _require_distinct(path, field, getattr(content, field))
    for attack, params in content.params.items():
        if attack not in content.attacks:
            raise HarnessError(f"{path}: params.{attack}: the attack is not in attacks. Add it, or remove the table.")
        for name, texts in params.items():
            _require_distinct(path, f"params.{attack}.{name}", texts)
    try:
        RunRequest.checked(round="", **content.options)
    except UsageError as error:
        raise HarnessError(f"{path}: {str(error).removeprefix('--')}") from None
    located = {field: tuple(_locate(name, path.parent) for name in getattr(content, field)) for field in _PATH_FIELDS}
    return content.model_copy(update=located)


def combinations(file: SweepFile, *, uses_target: Mapping[str, bool]) -> Iterator[SweptRun]:
    """Yield the runs of a sweep without ids, each setting once before the next seed.

    `uses_target` says for each attack if it has a target. An attack without one is not repeated for each target.
    """
    targets = file.targets or (None,)
    pairs = [
        (target, attack)
        for target, attack in itertools.product(targets, file.attacks)
        if uses_target[attack] or target == targets[0]
    ]
    for seed, round_, (target, attack) in itertools.product(file.seeds, file.rounds, pairs):
        params = file.params.get(attack, {})
        for texts in itertools.product(*params.values()):
            yield SweptRun(
                run="",
                attack=attack,
                params=dict(zip(params, texts, strict=True)),
                seed=seed,
                round=round_,
                target=target if uses_target[attack] else None,
            )


def _require_distinct(path: Path, field: str, values: tuple[Any, ...]) -> None:
    for value, times in Counter(values).items():
        if times > 1:
            raise HarnessError(f"{path}: {field}: {shorten(str(value))} is given {times:,} times. Keep one.")


def _locate(name: str, folder: Path) -> str:
    """Return the path `name` made absolute; any other name as it is."""
    if name.startswith(("./", "../")) or (name.endswith(".toml") and not name.startswith(("/", "~"))):
        return str((folder / name).resolve())
    return name
