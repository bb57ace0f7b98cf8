"""The devices that share a run, as `--devices` names them."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from harness.core.text import shorten

_ALL, _CPU = "all", "cpu:"


@dataclass(frozen=True)
class DeviceList:
    """Either GPUs or workers on the CPU.

    gpus: the numbers of the GPUs; empty for all GPUs.
    cpu_workers: the number of workers on the CPU; None for GPUs.
    """

    gpus: tuple[int, ...] = ()
    cpu_workers: int | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the devices in `text`: `0,1`, `all` or `cpu:N`. Raises ValueError for any other text."""
        if text == _ALL:
            return cls()
        if re.fullmatch(r"cpu:[1-9]\d{0,2}", text):
            return cls(cpu_workers=int(text.removeprefix(_CPU)))
        if re.fullmatch(r"\d{1,3}(,\d{1,3})*", text) is None:
            raise ValueError(f"unknown devices {shorten(text)!r}. Use GPUs such as 0,1, all, or cpu:N")
        gpus = tuple(map(int, text.split(",")))
        if len(set(gpus)) < len(gpus):
            raise ValueError(f"{text} names a GPU twice. Name each GPU once")
        return cls(gpus)

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        if self.cpu_workers is not None:
            return f"{_CPU}{self.cpu_workers}"
        return ",".join(map(str, self.gpus)) or _ALL


def _parsed(value: Any) -> Any:
    return value if isinstance(value, DeviceList) else DeviceList.parse(str(value))


DeviceListOption = Annotated[
    DeviceList, BeforeValidator(_parsed), PlainSerializer(str), WithJsonSchema({"type": "string"})
]
"""A field with a list of devices, which the command line, forms and records write as text."""
