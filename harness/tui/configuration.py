"""The user's settings in `$XDG_CONFIG_HOME/harness/config.toml`."""

import re
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.text import shorten

_MAX_BYTES = 1 << 16


class Configuration(BaseModel):
    """The settings of the screen.

    theme: the name of a Textual theme; round: the round that Home opens with; on_finish: a command and its arguments,
    started when a run ends while the screen is open, with HARNESS_RUN and HARNESS_STATUS in its environment.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    theme: str | None = None
    round: str = "demo"
    on_finish: list[str] = []


def configuration_file() -> Path:
    """Return the path of the file, which may not exist."""
    return paths.config_home() / "config.toml"


def read_configuration() -> Configuration:
    """Return the user's settings, or the defaults if there is no file. Raises HarnessError if the file is not valid."""
    path = configuration_file()
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HarnessError(f"{path}: larger than {_MAX_BYTES:,} bytes.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Configuration()
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"{path}: cannot be read ({shorten(str(error), 120)}).") from None
    try:
        return Configuration.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise HarnessError(f"{path}: {shorten(str(error), 120)}.") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        raise HarnessError(f"{path}, line {_line_of(field, text)}: {shorten(field)}: {first['msg']}.") from None


def invalid_setting(field: str, reason: str) -> HarnessError:
    """Return the error for a setting that has the right type and a wrong value."""
    path = configuration_file()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return HarnessError(f"{path}, line {_line_of(field, text)}: {field}: {reason}.")


def _line_of(field: str, text: str) -> int:
    match = re.search(rf"^\s*\[*\s*[\"']?{re.escape(field)}[\"']?\s*[=.\]]", text, re.MULTILINE)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1
