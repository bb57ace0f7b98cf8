"""The values that an attack's parameters may take: what its schema declares, and what is typed to vary them."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.errors import HarnessError, unknown_name
from harness.core.text import shorten


@dataclass(frozen=True)
class Span:
    """The values that a parameter may take: some choices, or all from `low` to `high`."""

    low: float = 0.0
    high: float = 0.0
    is_whole: bool = False
    choices: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """`value` is one of them."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    @property
    def in_words(self) -> str:
        """As one would type it after `--vary NAME=`."""
        return ",".join(map(str, self.choices)) if self.choices else f"{self.low:g}..{self.high:g}"


def space_of(schema: Mapping[str, Any], fixed: Sequence[str], vary: Sequence[str]) -> dict[str, Span]:
    """The parameters to search: those with two bounds or a list of values, and what `vary` says (`NAME=LOW..HIGH` or
    `NAME=A,B,C`), without those of the settings `fixed` (`NAME=VALUE`).

    schema: JSON schema of the attack's parameters. Raises HarnessError for a `vary` that does not fit it, and when
    nothing is left to search.
    """
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    space = {name: span for name, described in properties.items() if (span := _declared_span(described)) is not None}
    for text in vary:
        name, _, values = text.partition("=")
        if name not in properties:
            raise unknown_name("parameter", name, properties, see="harness attacks show ATTACK")
        space[name] = _typed_span(name, values, properties[name])
    for text in fixed:
        space.pop(text.partition("=")[0], None)
    if not space:
        raise HarnessError("nothing to tune: no parameter has two bounds or a list of values; --vary NAME=LOW..HIGH.")
    return space


def settings_of(space: Mapping[str, Span], params: Mapping[str, Any]) -> list[str]:
    """The searched parameters as `--set` takes them, `NAME=VALUE` each."""
    return [f"{name}={_typed(params[name])}" for name in space]


def every_setting(space: Mapping[str, Span]) -> Iterator[list[str]]:
    """Each setting of a space of whole numbers and choices, as `--set` takes it; nothing of one without end."""
    if all(span.choices or span.is_whole for span in space.values()):
        values = (span.choices or range(int(span.low), int(span.high) + 1) for span in space.values())
        for chosen in itertools.product(*values):
            yield settings_of(space, dict(zip(space, chosen, strict=True)))


def _declared_span(described: Any) -> Span | None:
    """What a parameter's schema says of its values; None where it leaves one end open."""
    if not isinstance(described, dict):
        return None
    if described.get("type") == "boolean":
        return Span(choices=(False, True))
    if isinstance(described.get("enum"), list) and len(described["enum"]) > 1:
        return Span(choices=tuple(described["enum"]))
    is_whole = described.get("type") == "integer"
    low, high = described.get("minimum"), described.get("maximum")
    if not is_whole and low is None and described.get("exclusiveMinimum") is not None and high is not None:
        # An open end is left by a thousandth of the way.
        low = described["exclusiveMinimum"] + (high - described["exclusiveMinimum"]) / 1000
    if described.get("type") not in ("integer", "number") or low is None or high is None:
        return None
    return Span(float(low), float(high), is_whole)


def _typed_span(name: str, values: str, described: Any) -> Span:
    """What `--vary NAME=VALUES` says."""
    is_whole = isinstance(described, dict) and described.get("type") == "integer"
    low, dots, high = values.partition("..")
    if not dots:
        choices = [value.strip() for value in values.split(",") if value.strip()]
        if len(choices) < 2:
            raise HarnessError(f"--vary {name}: write LOW..HIGH, or two values or more with commas between them.")
        if isinstance(described, dict) and described.get("type") == "boolean":
            return _switch(name, choices)
        numbers = tuple(_number(choice) for choice in choices)
        if is_whole and not all(isinstance(number, int) for number in numbers):
            raise HarnessError(f"--vary {name}={shorten(values)}: it takes whole numbers.")
        return Span(choices=numbers)
    first, last = _number(low), _number(high)
    if isinstance(first, str) or isinstance(last, str) or not first < last:
        raise HarnessError(f"--vary {name}={shorten(values)}: LOW..HIGH takes two numbers, the lower one first.")
    if is_whole and not (isinstance(first, int) and isinstance(last, int)):
        raise HarnessError(f"--vary {name}={shorten(values)}: it takes whole numbers.")
    return Span(float(first), float(last), is_whole)


def _switch(name: str, choices: list[str]) -> Span:
    if sorted(choices) != ["false", "true"]:
        raise HarnessError(f"--vary {name}: it takes true,false.")
    return Span(choices=(False, True))


def _number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text.strip()


def _typed(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
