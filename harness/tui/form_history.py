"""The values of the last run of each attack, kept in a file so that a form opens with them."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.core import paths
from harness.core.files import write_atomically
from harness.tui.form import Field, FieldKind

_MAX_BYTES = 1 << 20


def load_values(form: str, fields: Iterable[Field]) -> dict[str, str]:
    """Return the values last saved for a form, by field key; unknown fields and invalid values are left out."""
    values = _load_all().get(form, {})
    # The round is chosen before the form opens.
    known = [field for field in fields if field.key in values and field.kind is not FieldKind.ROUND]
    return {field.key: values[field.key] for field in known if field.error(values[field.key]) is None}


def recent_rounds() -> list[str]:
    """Return the rounds of the saved values, as they were typed, each once."""
    return sorted({values["--round"] for values in _load_all().values() if values.get("--round")})


def save_values(form: str, values: Mapping[str, str]) -> None:
    """Save `values` for the next time that the form opens; do nothing if the file cannot be written."""
    forms = {**_load_all(), form: dict(values)}
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(), json.dumps(forms, indent=2) + "\n")


def _file() -> Path:
    return paths.state_home() / "forms.json"


def _load_all() -> dict[str, dict[str, str]]:
    """Return the values by form and field key; everything else in the file is ignored, since users may edit it."""
    try:
        with _file().open("rb") as file:
            forms = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(forms, dict):
        return {}
    return {
        form: {key: text for key, text in values.items() if isinstance(text, str)}
        for form, values in forms.items()
        if isinstance(values, dict)
    }
