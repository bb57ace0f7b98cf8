"""Parameters of an audit as options of the command line: one check and one error text for all audits."""

import math
from typing import Any, Self

from pydantic import ValidationError, field_validator

from harness.core.attack import Params
from harness.core.errors import UsageError


class AuditParams(Params):
    """Base class of every audit's parameters."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_number(cls, value: object) -> object:
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("not a number")
        return value

    @classmethod
    def checked(cls, **fields: Any) -> Self:
        """Return the parameters. Raises HarnessError that names the option of the first invalid value."""
        try:
            return cls(**fields)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
            option = f"--{str(fault['loc'][0]).replace('_', '-')}: " if fault["loc"] else ""
            raise UsageError(f"{option}{fault['msg'].removeprefix('Value error, ').rstrip('.')}.") from None
