"""The options of a run, declared once.

The commands that start runs, the form and *Again* of the TUI, `--like`, the notebook, sweep files, tunings, code
bundles and the generated reference are made from `RunRequest`; a new option is a new field. A run's record keeps the
request as it was asked (`auto` stays `auto`), and apart from it what it was resolved to.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import field_validator, model_validator

from harness.core.device_list import DeviceListOption
from harness.core.errors import HarnessError
from harness.core.options import Options, hints_of, option
from harness.core.settings import default_round
from harness.core.text import shorten
from harness.core.times import parse_duration

_PLACES = {"device", "devices", "shards", "ray"}
"""Options that say where a run is computed. One replaces the others."""
WORKERS = ("devices", "split_target", "shards", "ray")
"""Options that divide a run among workers or devices."""
RESOLVED = frozenset(
    {"attack", "attacks", "settings", "preset", "guesses_per_example", "round", "seed", "budget"}
    | {"target", "base", "revision", "reference", "device", "dtype", "threads"}
)
"""Options whose resolved values are fields of the spec of a run."""
NOT_IN_CODE = ("round", "limit", "group", "share_device", *WORKERS)
"""Options that the code of an attack does not take into a bundle."""


def _duration(value: Any) -> str | None:
    if value is None:
        return None
    try:
        parse_duration(str(value))
    except HarnessError as error:
        raise ValueError(str(error)) from None
    return str(value)


class DeviceOptions(Options):
    """The options for loading a model: device, precision and threads."""

    heading: ClassVar[str] = "Device"

    device: str = option(
        "auto",
        needs_target=True,
        metavar="NAME",
        description="cpu, cuda, cuda:N or auto (a GPU if any).",
    )
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = option(
        "auto",
        needs_target=True,
        metavar="TYPE",
        description="Precision: float32, float16 or bfloat16.",
    )
    threads: int | None = option(
        None, ge=1, le=4096, needs_target=True, unset="all usable cores", description="CPU threads."
    )


def seed_option() -> Any:
    """Return the field of a seed."""
    return option(0, ge=0, description="Seed of every draw.")


def share_device_option() -> Any:
    """Return the field of an option about the queue for devices."""
    return option(False, panel="Device", description="Start without waiting for a free device.")


class ModelOptions(DeviceOptions):
    """The options of a command that runs models."""

    base: str | None = option(
        None, panel="Model", needs_target=True, metavar="MODEL", description="Base model of an adapter."
    )


class AuditRequest(ModelOptions):
    """The options that all audits share."""

    heading: ClassVar[str] = "Options"

    revision: str = option("main", panel="Model", description="Revision of hub models.")
    budget: str = option("24h", metavar="DURATION", description="Wall-clock limit, such as 24h or 90m.")
    seed: int = seed_option()
    share_device: bool = share_device_option()

    _check_budget = field_validator("budget", mode="before")(_duration)


class RunRequest(ModelOptions):
    """An attack, its parameters as they were set, and the options of its run."""

    heading: ClassVar[str] = "Options"

    attack: str = option("", is_hidden=True, description="Name of the attack.")
    round: str = option(
        default_factory=default_round,
        short="-r",
        metavar="ROUND",
        unset="`round` in config.toml, else demo",
        is_in_form=False,
        description="Name or TOML file of a round.",
    )
    target: str | None = option(
        None,
        needs_target=True,
        metavar="MODEL",
        unset="the round's",
        description="Hub id, directory or GGUF file.",
    )
    revision: str | None = option(
        None, panel="Model", needs_target=True, unset="the round's", description="Revision of hub models."
    )
    reference: str | None = option(
        None,
        panel="Model",
        needs_target=True,
        metavar="MODEL",
        unset="the attack's",
        description="Reference model: hub id, directory or GGUF file.",
    )
    budget: str | None = option(
        None,
        metavar="DURATION",
        unset="the round's",
        description="Wall-clock limit, such as 24h or 90m.",
    )
    seed: int = seed_option()
    settings: tuple[str, ...] = option(
        (),
        name="set",
        short="-s",
        metavar="NAME=VALUE",
        is_in_form=False,
        description="Set a parameter of the attack; repeatable.",
    )
    preset: bool = option(False, is_in_form=False, description="Use the round's preset; parameters override it.")
    attacks: Path | None = option(
        None, metavar="DIR", is_in_form=False, description="Directory of attacks, searched first."
    )
    limit: int | None = option(None, ge=1, unset="all", description="Attack only the first N examples.")
    guesses_per_example: int | None = option(
        None,
        ge=0,
        metavar="N",
        unset="the attack's",
        description="Suffixes to submit per example; 0: all.",
    )
    share_device: bool = share_device_option()
    devices: DeviceListOption | None = option(
        None,
        panel="Device",
        metavar="LIST",
        unset="none",
        description="Devices that share the run: 0,1, all or cpu:N.",
    )
    split_target: bool = option(
        False, panel="Device", needs_target=True, description="Split the target over --devices."
    )
    shards: int | None = option(
        None, ge=1, le=1000, panel="Cluster", unset="none", description="Number of workers on the cluster of --ray."
    )
    ray: str | None = option(
        None, metavar="ADDRESS", panel="Cluster", description="Ray cluster for --shards: HOST:PORT, or `auto`."
    )
    group: str | None = option(None, metavar="NAME", unset="none", description="Group that the run belongs to.")

    _check_budget = field_validator("budget", mode="before")(_duration)

    @field_validator("settings")
    @classmethod
    def _have_names(cls, settings: tuple[str, ...]) -> tuple[str, ...]:
        names = set()
        for setting in settings:
            name, equals, _ = setting.partition("=")
            if not equals or not name:
                raise ValueError(f"expected NAME=VALUE, got {shorten(setting)!r}")
            if name in names:
                raise ValueError(f"{name} is set twice. Keep one of them")
            names.add(name)
        return settings

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.devices is not None and self.device != "auto":
            raise ValueError("--devices: cannot be used together with --device. Remove one")
        if (self.shards is None) != (self.ray is None):
            raise ValueError("--shards: give --shards and --ray together")
        if self.shards is not None and (self.split_target or self.devices is not None):
            second = "--split-target" if self.split_target else "--devices"
            raise ValueError(f"--shards: cannot be used together with {second}. Remove one")
        if self.ray in ("local", "none"):
            raise ValueError("--ray: name a cluster. On one machine, --devices shares a run")
        return self

    @property
    def params(self) -> dict[str, str]:
        """The text of each parameter that was set, by name."""
        return dict(setting.split("=", 1) for setting in self.settings)

    def without_target(self) -> Self:
        """Return the request of an attack that uses no target."""
        return self.without(lambda name: bool(hints_of(type(self).model_fields[name])["needs_target"]))

    def like(self, recorded: "RunRequest") -> "RunRequest":
        """Return a recorded request with what this one sets instead.

        Another attack has other parameters, so with one, those that were recorded are left out. A place to run at
        (device, devices, cluster) replaces the recorded place. Raises UsageError if the options do not fit together.
        """
        typed = {name: getattr(self, name) for name in self.model_fields_set}
        left_out = set(_PLACES) if typed.keys() & _PLACES else set()
        if typed.keys() & {"device", "shards"}:
            left_out.add("split_target")
        if typed.get("attack", recorded.attack) != recorded.attack:
            left_out |= {"settings", "preset"}
        elif self.settings:
            params = recorded.params | self.params
            typed["settings"] = tuple(f"{name}={text}" for name, text in params.items())
        return recorded.without(left_out.__contains__).changed(**typed)
