"""`harness run --like RUN`: the options of a recorded run, replaced by those on the command line."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from harness.cli.options import DeviceOptions, RunOptions, usage_errors
from harness.cli.output import sanitize, say
from harness.cli.resolving import TARGET_OPTIONS, settings_in
from harness.jobs.attack.options import recorded_options
from harness.plugins.discovery import find_attacks
from harness.runs.folder import RunFolder

OptionsType = TypeVar("OptionsType", RunOptions, DeviceOptions)


@dataclass(frozen=True)
class RunRequest:
    """The attack, the round and the options of `harness run`; the round is None if it was not given."""

    attack: str
    round: str | None
    options: RunOptions
    compute: DeviceOptions
    devices: str | None
    shard_target: bool
    limit: int | None


def request_like(folder: RunFolder, given: RunRequest, is_given: Callable[[str], bool]) -> RunRequest:
    """Return the request of a recorded run, with what was given on the command line instead.

    `is_given` says that for the name of an option. Another attack has other parameters, so with one, those of the run
    are left out. Raises HarnessError if the run is not one of an attack.
    """
    spec = folder.attack_spec()
    recorded = recorded_options(spec)
    name = given.attack or recorded.attack
    attacks = given.options.attacks if is_given("attacks") else recorded.attacks
    found = next((attack for attack in find_attacks(attacks) if attack.name == name), None)
    uses_no_target = found is not None and not found.uses_target
    kept = set(TARGET_OPTIONS) if uses_no_target else set()

    def merged(options: OptionsType) -> OptionsType:
        names = {field.name for field in fields(options)} - {"settings", "attacks"} - kept
        return replace(options, **{name: getattr(recorded, name) for name in names if not is_given(name)})

    settings = given.options.settings
    if name == recorded.attack:
        with usage_errors("--set"):
            params = recorded.params | settings_in(settings or [])
        settings = [f"{name}={text}" for name, text in params.items()]
        if found is None:
            say(f"attack {name} was not found, so the source that {folder.id} ran is used.")
            attacks = folder.code
        elif found.sha256 != spec.attack.sha256:
            path = sanitize(str(found.path))
            say(f"{path} differs from the source that {folder.id} ran, which --attacks {folder.code} uses.")
    return RunRequest(
        attack=name,
        round=given.round if is_given("round_") else recorded.round,
        options=replace(merged(given.options), settings=settings, attacks=attacks),
        compute=merged(given.compute),
        # One device replaces several.
        devices=given.devices if any(map(is_given, ("devices", "device", "shards"))) else recorded.devices,
        shard_target=given.shard_target
        if is_given("shard_target") or is_given("device") or uses_no_target
        else recorded.shard_target,
        limit=given.limit if is_given("limit") else recorded.limit,
    )
