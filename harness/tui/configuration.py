"""The user's settings, from `$XDG_CONFIG_HOME/harness/config.toml`; faults name the file and the line."""

import re
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.core import paths
from harness.core.errors import HarnessError
from harness.core.text import shorten

_MAX_BYTES = 1 << 16


class Configuration(BaseModel):
    """theme: a Textual theme by name; round: the one that Home begins with; on_finish: a command, as a list of
    arguments, that is started when a run ends while the screen is open; its environment has HARNESS_RUN and
    HARNESS_STATUS."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    theme: str | None = None
    round: str = "demo"
    on_finish: list[str] = []


def configuration_file() -> Path:
    """Where it lies, whether it is there or not."""
    return paths.config_home() / "config.toml"


def read_configuration() -> Configuration:
    """The user's settings, the defaults where there is no file. Raises HarnessError for a file that does not hold."""
    path = configuration_file()
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise HarnessError(f"{path}: larger than any configuration.")
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
        fault = error.errors(include_url=False)[0]
        field = str(fault["loc"][0])
        raise HarnessError(f"{path}, line {_line_of(field, text)}: {shorten(field)}: {fault['msg']}.") from None


def fault_in_setting(field: str, reason: str) -> HarnessError:
    """The error for a setting that is well-formed and will not do."""
    path = configuration_file()
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return HarnessError(f"{path}, line {_line_of(field, text)}: {field}: {reason}.")


def _line_of(field: str, text: str) -> int:
    match = re.search(rf"^\s*\[*\s*[\"']?{re.escape(field)}[\"']?\s*[=.\]]", text, re.MULTILINE)
    return 1 if match is None else text.count("\n", 0, match.end()) + 1
