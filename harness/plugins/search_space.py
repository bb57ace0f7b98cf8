"""The values that a tuning tries for each parameter of an attack."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.errors import HarnessError, unknown_name
from harness.core.parameters import Parameter, parameters_in
from harness.core.text import shorten


@dataclass(frozen=True)
class Span:
    """The values of one parameter: the choices if there are any, else all values from `low` to `high`."""

    low: float = 0.0
    high: float = 0.0
    is_whole: bool = False
    choices: tuple[Any, ...] = ()

    def holds(self, value: Any) -> bool:
        """Return True if `value` is one of these values."""
        if self.choices:
            return value in self.choices
        return isinstance(value, int | float) and self.low <= value <= self.high

    @property
    def in_words(self) -> str:
        """The values as a user types them after `--vary NAME=`."""
        return ",".join(map(str, self.choices)) if self.choices else f"{self.low:g}..{self.high:g}"


def space_of(schema: Mapping[str, Any], fixed: Sequence[str], vary: Sequence[str]) -> dict[str, Span]:
    """Return the parameters to search: those with two bounds or a list of values, and those of `vary`.

    schema: JSON schema of the parameters.
    vary: options `NAME=LOW..HIGH` or `NAME=A,B,C`.
    fixed: settings `NAME=VALUE`, or names, of parameters that are not searched.
    Raises HarnessError if a `vary` does not fit the schema, or if no parameter is left.
    """
    parameters = {parameter.name: parameter for parameter in parameters_in(schema)}
    space = {name: span for name, parameter in parameters.items() if (span := _declared_span(parameter)) is not None}
    for text in vary:
        name, _, values = text.partition("=")
        if name not in parameters:
            raise unknown_name("parameter", name, parameters, see="harness show ATTACK")
        space[name] = _typed_span(values, parameters[name])
    for text in fixed:
        space.pop(text.partition("=")[0], None)
    if not space:
        raise HarnessError(
            "nothing to tune: no parameter has two bounds or a list of values. Add --vary NAME=LOW..HIGH."
        )
    return space


def settings_of(space: Mapping[str, Span], params: Mapping[str, Any]) -> list[str]:
    """Return the searched parameters in the form of `--set`: NAME=VALUE."""
    return [f"{name}={_typed(params[name])}" for name in space]


def every_setting(space: Mapping[str, Span]) -> Iterator[list[str]]:
    """Yield all settings if the space is finite (whole numbers and choices), in the form of `--set`; else nothing."""
    if all(span.choices or span.is_whole for span in space.values()):
        values = (span.choices or range(int(span.low), int(span.high) + 1) for span in space.values())
        for combination in itertools.product(*values):
            yield settings_of(space, dict(zip(space, combination, strict=True)))


def _declared_span(parameter: Parameter) -> Span | None:
    """Return the values that the schema of a parameter allows; None if it may be `none`, or has no two bounds."""
    kind, rules = parameter.value_type, parameter.rules
    if parameter.is_nullable:
        return None
    if kind is bool:
        return Span(choices=(False, True))
    if len(parameter.choices) > 1:
        return Span(choices=parameter.choices)
    low, high = rules.get("minimum"), rules.get("maximum")
    if kind is float and low is None and rules.get("exclusiveMinimum") is not None and high is not None:
        # The bound is excluded, so start a thousandth of the range above it.
        low = rules["exclusiveMinimum"] + (high - rules["exclusiveMinimum"]) / 1000
    if kind not in (int, float) or low is None or high is None:
        return None
    return Span(float(low), float(high), kind is int)


def _typed_span(values: str, parameter: Parameter) -> Span:
    """Return the values of `--vary NAME=VALUES`."""
    option, kind = f"{parameter.name}={shorten(values)}", parameter.value_type
    low, dots, high = values.partition("..")
    if dots:
        first, last = _number(low), _number(high)
        if isinstance(first, str) or isinstance(last, str) or first >= last:
            raise HarnessError(f"{option}: not a range. Write LOW..HIGH with two numbers, the lower one first.")
        numbers: tuple[float | int | str, ...] = (first, last)
        span = Span(float(first), float(last), kind is int)
    else:
        choices = [value.strip() for value in values.split(",") if value.strip()]
        if len(choices) < 2:
            raise HarnessError(
                f"{option}: not enough values. Write LOW..HIGH, or two values or more with commas between them."
            )
        if kind is bool:
            if sorted(choices) != ["false", "true"]:
                raise HarnessError(f"{option}: the parameter is true or false. Write true,false.")
            return Span(choices=(False, True))
        numbers = tuple(_number(choice) for choice in choices)
        span = Span(choices=numbers)
    if kind is int and not all(isinstance(number, int) for number in numbers):
        raise HarnessError(f"{option}: the parameter is an integer. Write whole numbers.")
    return span


def _number(text: str) -> float | int | str:
    """Return the finite number that `text` is, or else the text."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if math.isfinite(value):
            return value
    return text.strip()


def _typed(value: Any) -> str:
    """Return a value in the form of `--set`."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
