"""The values that each attack was last started with, so that a form opens as it was left."""

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.core import paths
from harness.core.files import write_atomically
from harness.tui.faults import fault_in
from harness.tui.form import Field, Kind

_MAX_BYTES = 1 << 20


def remembered_values(attack: str, fields: Iterable[Field]) -> dict[str, str]:
    """What `attack` was last started with, by a field's key, without what is no field of it or not valid any more."""
    values = _all_remembered().get(attack, {})
    return {
        field.key: values[field.key]
        for field in fields
        # A form opens on the round that was chosen before it.
        if field.key in values and field.kind is not Kind.ROUND and fault_in(field, values[field.key]) is None
    }


def remembered_rounds() -> list[str]:
    """The rounds that runs were last started on, each once, as they were typed."""
    return sorted({values["--round"] for values in _all_remembered().values() if values.get("--round")})


def remember_values(attack: str, values: Mapping[str, str]) -> None:
    """Keep `values` for the next form of `attack`; where nothing can be written, nothing is kept."""
    forms = {**_all_remembered(), attack: dict(values)}
    with contextlib.suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_file(), json.dumps(forms, indent=2) + "\n")


def _file() -> Path:
    return paths.state_home() / "forms.json"


def _all_remembered() -> dict[str, dict[str, str]]:
    """Texts by key, by attack. Whatever else the file holds is not there: it may be edited, cut short or another's."""
    try:
        with _file().open("rb") as file:
            forms = json.loads(file.read(_MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(forms, dict):
        return {}
    return {
        attack: {key: text for key, text in values.items() if isinstance(text, str)}
        for attack, values in forms.items()
        if isinstance(values, dict)
    }
