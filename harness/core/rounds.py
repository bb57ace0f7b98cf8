"""A round: the rules of one contest and the paths of its files, read from a TOML file."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, WithJsonSchema, model_validator

from harness.core import paths
from harness.core.errors import HarnessError, unknown_name
from harness.core.faults import first_fault
from harness.core.inputs import read_bounded_toml, validate_fields
from harness.core.text import shorten
from harness.core.times import parse_duration, parse_moment

FILE_FIELDS = (
    "prefix_file",
    "answer_file",
    "preprefix_file",
    "train_prefix_file",
    "train_suffix_file",
    "train_preprefix_file",
)
_FOLD = re.compile(r"(?P<base>.+):fold(?P<fold>\d{1,4})of(?P<folds>\d{1,4})")
_ORDERED_DATES = (("code_deadline", "closes"), ("prefixes_released", "closes"), ("closes", "answers_released"))
_CACHED_MODEL = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)")
_MAX_MODEL_NAME_LENGTH = 400
_MAX_ROUND_BYTES = 1 << 20
_MAX_BASES = 16
PresetValue = str | int | float | bool
RowRange = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
ROUND_NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$"


def _validator_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Return a validator of texts that `parse` reads."""

    def validate(value: Any) -> object:
        try:
            return parse(str(value))
        except HarnessError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(validate)


def _presets(value: Any) -> dict[str, dict[str, PresetValue]]:
    """Return the presets without empty ones, which remove those of a base."""
    if not isinstance(value, dict):
        raise ValueError("must be a table of tables, such as [presets.baseline]")
    for attack, preset in value.items():
        if preset != "" and not isinstance(preset, dict):
            raise ValueError(f"{attack}: must be a table of parameter names and values")
        for name, stated in preset.items() if preset else ():
            if not isinstance(stated, PresetValue) or (isinstance(stated, float) and not math.isfinite(stated)):
                raise ValueError(f"{attack}.{name}: must be text, a finite number, true or false")
        for name in (attack, *preset):
            if not name.isidentifier():
                raise ValueError(f"{shorten(name)!r} is not a valid name. Use letters, digits and _, no digit first")
    return {attack: preset for attack, preset in value.items() if preset}


Seconds = Annotated[float, _validator_by(parse_duration), WithJsonSchema({"type": "string"})]
Moment = Annotated[datetime, _validator_by(parse_moment), WithJsonSchema({"type": "string"})]
Presets = Annotated[dict[str, dict[str, PresetValue]], BeforeValidator(_presets)]


class Fold(BaseModel, frozen=True, extra="forbid"):
    """The part of the training rows of a round that is attacked. The other parts are its training rows."""

    index: int = Field(ge=0)
    folds: int = Field(ge=2)

    @model_validator(mode="after")
    def _is_one_of_its_folds(self) -> Self:
        if self.index >= self.folds:
            raise ValueError(f"fold {self.index} of {self.folds} does not exist: the folds are 0 to {self.folds - 1}")
        return self


class Round(BaseModel, frozen=True, extra="forbid"):
    """The rules of one contest. `load_round` makes all paths absolute."""

    name: str = Field(pattern=ROUND_NAME, description="Name of the round, which runs and bundles record.")
    title: str = Field(description="One line for lists and reports.")
    prefix_file: Path = Field(description="Tokens of the attacked prefixes, a `.npy` array [rows, prefix_length].")
    answer_file: Path | None = Field(
        None, description="Suffixes of the attacked prefixes [rows, suffix_length]. Without it the round is blind."
    )
    preprefix_file: Path | None = Field(
        None,
        description="Tokens before each attacked prefix. They are used to compute clusters and never reach an attack.",
    )
    answer_rows: RowRange | None = Field(
        None,
        description="Attacked rows of the three files above, as first row and row after the last. All by default.",
    )
    train_prefix_file: Path | None = Field(None, description="Prefixes of the training examples that attacks get.")
    train_suffix_file: Path | None = Field(None, description="Their suffixes. Give both training files, or none.")
    train_preprefix_file: Path | None = Field(None, description="Tokens before each prefix of a training example.")
    train_rows: RowRange | None = Field(None, description="Rows of the training files, as in `answer_rows`.")
    clusters: Literal["computed", "none"] = Field(
        "computed",
        description="`computed` joins examples that share 32 tokens, and intervals draw whole clusters. "
        "`none` takes every example as independent.",
    )
    prefix_length: int = Field(50, ge=1, le=4096, description="Prefix length.")
    suffix_length: int = Field(50, ge=1, le=4096, description="Suffix length.")
    vocabulary: int = Field(
        50257, ge=2, le=1 << 32, description="Number of token ids. The target must predict as many."
    )
    error_cap: int = Field(100, ge=1, description="Wrong rows at which scoring stops.")
    row_cap: int = Field(100_000, ge=1, description="Rows that a submission may have.")
    budget: Seconds = Field(
        "24h",
        validate_default=True,
        description="Wall clock that a run may take, such as `10m` or `24h`; a number is in seconds.",
    )
    target: str = Field(description="Model under attack: hub id, directory, `demo` or one of its sizes.")
    revision: str = Field("main", description="Revision of a target on the hub.")
    fold: Fold | None = Field(
        None, description="Fold of the training rows that is attacked. The name of a derived round sets it."
    )
    presets: Presets = Field(
        {},
        exclude=True,
        description="A table `[presets.ATTACK]` has values of parameters with which the attack fits into the budget. "
        "Presets are not rules: records and comparisons of rounds leave them out.",
    )
    code_deadline: Moment | None = Field(
        None, exclude=True, description="Last moment for the code, which is frozen then. Format: see below."
    )
    prefixes_released: Moment | None = Field(
        None, exclude=True, description="When the attacked prefixes are published."
    )
    closes: Moment | None = Field(None, exclude=True, description="Last moment for submissions.")
    answers_released: Moment | None = Field(None, exclude=True, description="When the answers are published.")
    forbidden_models: tuple[str, ...] = Field(
        (),
        exclude=True,
        description="Models that an attack must not query, as patterns of hub ids, such as `EleutherAI/pythia-*`. The "
        "target and its tokenizer are always allowed.",
    )
    training_data_search: Literal["allowed", "forbidden"] | None = Field(
        None,
        exclude=True,
        description="Whether a team may search the training data of the target, or the web, for attacked prefixes. "
        "No check can detect it.",
    )
    source: Path | None = Field(None, description="The file that the round was read from; not a field of that file.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.train_prefix_file is None) != (self.train_suffix_file is None):
            raise ValueError("train_prefix_file and train_suffix_file must be given together")
        for field, rows in (("answer_rows", self.answer_rows), ("train_rows", self.train_rows)):
            if rows is not None and rows[0] >= rows[1]:
                raise ValueError(f"{field}: the row range {list(rows)} is empty. Its end must be above its start")
        for earlier, later in _ORDERED_DATES:
            dates = getattr(self, earlier), getattr(self, later)
            if None not in dates and dates[0] > dates[1]:
                raise ValueError(f"{later} is before {earlier}. Correct one of the dates")
        return self

    @property
    def is_blind(self) -> bool:
        """Return True if no answers are known: no file is named, or it does not exist. A fold is never blind."""
        return self.fold is None and (self.answer_file is None or not self.answer_file.exists())

    @property
    def file_with_answers(self) -> Path | None:
        """The file with the suffixes of the attacked examples; those of a fold are training rows."""
        return self.answer_file if self.fold is None else self.train_suffix_file

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that the round names, without repetition."""
        paths = (getattr(self, field) for field in FILE_FIELDS)
        return tuple(dict.fromkeys(path for path in paths if path is not None))

    def forbidden_model(self, models: Iterable[str]) -> str | None:
        """Return the first of `models`, hub ids or paths, whose name the rules forbid, or None.

        Upper and lower case are equal, as on the hub. The name of a directory is its last two parts, or the hub id if
        it is in the cache of the hub.
        """
        for model in models:
            name = _hub_id(model).casefold()
            # A directory may have lost its owner, so `*/pythia-*` matches pythia-160m too.
            names = (name,) if "/" in name else (name, f"/{name}")
            patterns = [pattern.casefold() for pattern in self.forbidden_models]
            if name != self.target.casefold() and any(fnmatchcase(*pair) for pair in product(names, patterns)):
                return model
        return None

    def derived_fold(self, index: int, folds: int = 5) -> "Round":
        """Return the round that attacks fold `index` of the training rows, cut by cluster, and trains on the others.

        Raises HarnessError if this round has no training rows.
        """
        if self.train_prefix_file is None:
            raise HarnessError(f"round {self.name} has no training rows to cut folds from. Choose another round.")
        try:
            fold = Fold(index=index, folds=folds)
        except ValidationError as error:
            raise HarnessError(f"{first_fault(error)}.") from None
        return self.model_copy(
            update={
                "name": f"{self.name}:fold{index}of{folds}",
                "title": f"{self.title}, fold {index} of {folds}",
                "fold": fold,
            }
        )


def preset_text(preset: Mapping[str, PresetValue]) -> str:
    """Return the values of a preset as `--set` takes them, such as `trials=4, top_k=10`."""
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in preset.items()}
    return ", ".join(f"{name}={text}" for name, text in texts.items())


def _hub_id(model: str) -> str:
    model = model.strip().rstrip("/")[-_MAX_MODEL_NAME_LENGTH:]
    if (cached := _CACHED_MODEL.search(model)) is not None:
        return f"{cached['owner']}/{cached['name']}"
    return "/".join(model.split("/")[-2:])


def built_in_rounds() -> dict[str, Path]:
    """Return the file of each round in the package, by name."""
    return {path.stem: path for path in sorted(paths.BUILT_IN_ROUNDS.glob("*.toml"))}


def load_round(name: str) -> Round:
    """Return a round by its name or the path of its TOML file. `NAME:fold2of5` derives a fold of it.

    Raises HarnessError, naming file and field, if the round is unknown or malformed.
    """
    if (match := _FOLD.fullmatch(name)) is not None:
        return load_round(match["base"]).derived_fold(int(match["fold"]), int(match["folds"]))
    path = paths.expand_home(name)
    if not (path.suffix == ".toml" or "/" in name):
        built_in = built_in_rounds()
        if name not in built_in:
            raise unknown_name("round", name, built_in, see="harness list rounds")
        path = built_in[name]
    path = path.resolve()
    # An empty string removes a field of the base, because TOML has no null.
    fields = {field: value for field, value in _resolved_fields(path, ()).items() if value != ""}
    if "source" in fields:
        raise HarnessError(f"{path}: source: unknown field. Remove it.")
    return validate_fields(Round, {**fields, "source": path}, path)


def _resolved_fields(path: Path, below: tuple[Path, ...]) -> dict[str, Any]:
    """Return the fields of a round file merged over those of its `base`, with absolute paths."""
    if path in below:
        raise HarnessError(f"{path}: base: leads back to this round. Name another base.")
    if len(below) == _MAX_BASES:
        raise HarnessError(f"{below[0]}: more than {_MAX_BASES} rounds, each the base of another. Copy their fields.")
    fields = read_bounded_toml(path, limit=_MAX_ROUND_BYTES)
    for field in FILE_FIELDS:
        if (value := fields.get(field)) and isinstance(value, str):
            fields[field] = _locate(value, path.parent)
    if isinstance(target := fields.get("target"), str) and target.startswith(("./", "../", "/", "~")):
        fields["target"] = str((path.parent / paths.expand_home(target)).resolve())
    base = fields.pop("base", None)
    if base is None:
        return fields
    if not isinstance(base, str):
        raise HarnessError(f"{path}: base: expected the name or the file of another round, as text.")
    built_in = built_in_rounds()
    base_path = built_in[base] if base in built_in else (path.parent / str(base)).resolve()
    inherited = _resolved_fields(base_path, (*below, path))
    if isinstance(presets := fields.get("presets"), dict) and isinstance(below_it := inherited.get("presets"), dict):
        fields["presets"] = below_it | presets
    return {**inherited, **fields}


def _locate(value: str, folder: Path) -> Path:
    """Return a path next to the round file if it exists there, else in the data directory."""
    neighbour = folder / paths.expand_home(value)
    try:
        return neighbour.resolve() if neighbour.exists() or Path(value).is_absolute() else paths.data_home() / value
    except (OSError, ValueError):
        raise HarnessError(f"{shorten(value)}: not a valid path. Correct it in the round.") from None
