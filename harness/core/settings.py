"""The user's settings: `$XDG_CONFIG_HOME/harness/config.toml`. An error names the file and the line."""

import re
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.faults import first_fault
from harness.core.inputs import read_bounded_toml
from harness.core.rounds import load_round

_MAX_BYTES = 1 << 20


class Settings(BaseModel, frozen=True, extra="forbid"):
    """The content of config.toml. Each value has a default."""

    theme: str | None = Field(None, description="Name of a Textual theme. NO_COLOR turns all colours off.")
    round: str = Field("demo", description="Default of `--round`, and the round that the TUI selects at its start.")
    device: str = Field("auto", description="Device that `--device auto` stands for.")
    on_finish: list[str] = Field(
        [],
        description="Command, as a list of arguments, that the TUI starts when a run ends. Its environment has "
        "HARNESS_RUN and HARNESS_STATUS.",
    )


def settings_file() -> Path:
    """Return the path of the settings file, which may not exist."""
    return paths.config_home() / "config.toml"


def read_settings() -> Settings:
    """Return the user's settings, or the defaults if there is no file.

    Raises HarnessError if the file cannot be read or a value is invalid.
    """
    path = settings_file()
    if not path.exists():
        return Settings()
    try:
        return Settings.model_validate(read_bounded_toml(path, limit=_MAX_BYTES))
    except ValidationError as error:
        field, _, reason = first_fault(error, {}, Settings.model_fields).partition(": ")
        raise setting_error(field, reason) from None


def default_round() -> str:
    """Return the name of the user's default round. Raises HarnessError if the round cannot be loaded."""
    name = read_settings().round
    try:
        load_round(name)
    except (HarnessError, OSError) as error:
        raise setting_error("round", str(error).rstrip(".")) from None
    return name


def setting_error(field: str, reason: str) -> HarnessError:
    """Return the error for a setting of the right type whose value cannot be used."""
    path = settings_file()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return HarnessError(f"{path}, line {_line_of(field, text)}: {field}: {reason}{'' if reason.endswith('?') else '.'}")


def _line_of(field: str, text: str) -> int:
    match = re.search(rf"^[ \t\[]*[\"']?{re.escape(field.partition('.')[0])}[\"']?[ \t]*[=.\]]", text, re.MULTILINE)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1
