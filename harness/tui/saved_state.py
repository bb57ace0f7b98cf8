"""State that the TUI keeps between its starts: the chosen theme, and the values of the last run of each attack."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from harness.core import paths
from harness.core.files import write_atomically

if TYPE_CHECKING:
    from harness.tui.form import Field

_FORMS, _SCREEN = "forms", "screen"
_MAX_BYTES = 1 << 20


def load_theme() -> object:
    """Return the theme that was chosen last, which may be unknown; None for none."""
    return _load(_SCREEN).get("theme")


def save_theme(theme: str) -> None:
    """Save the choice; do nothing if the file cannot be written."""
    _save(_SCREEN, {"theme": theme})


def load_values(form: str, fields: "Iterable[Field]") -> dict[str, str]:
    """Return the values last saved for a form, by field key; unknown fields and invalid values are left out."""
    values = _load_forms().get(form, {})
    # The round is chosen before the form opens.
    saved = [field for field in fields if field.key in values and field.kind != "round"]
    return {field.key: values[field.key] for field in saved if field.error(values[field.key]) is None}


def recent_rounds() -> list[str]:
    """Return the rounds of the saved values, as they were typed, each once."""
    return sorted({values["--round"] for values in _load_forms().values() if values.get("--round")})


def save_values(form: str, values: Mapping[str, str]) -> None:
    """Save `values` for the next time that the form opens; do nothing if the file cannot be written."""
    _save(_FORMS, {**_load_forms(), form: dict(values)})


def _load_forms() -> dict[str, dict[str, str]]:
    """Return the values by form and field key."""
    return {
        form: {key: text for key, text in values.items() if isinstance(text, str)}
        for form, values in _load(_FORMS).items()
        if isinstance(values, dict)
    }


def _load(name: str) -> dict[str, Any]:
    """Return the content of a file; empty if it holds anything else, since users may edit it."""
    try:
        with (paths.state_home() / f"{name}.json").open("rb") as file:
            content = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _save(name: str, content: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        paths.state_home().mkdir(parents=True, exist_ok=True)
        write_atomically(paths.state_home() / f"{name}.json", json.dumps(content, indent=2) + "\n")
