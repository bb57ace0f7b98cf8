"""The options of `harness run` that start a stored run again."""

from dataclasses import dataclass
from pathlib import Path

from harness.core.rounds import Round, shipped_rounds
from harness.core.spec import cluster_of
from harness.core.times import duration_text
from harness.jobs.attack.spec import AttackSpec
from harness.plugins.discovery import NAMED_FOLDER
from harness.plugins.parameters import setting_text


@dataclass(frozen=True)
class RecordedOptions:
    """The options of a run, by the name of the option; None where the run used the default.

    attacks: the directory of the attack, if it still exists. round: a name or a file. params: the text of every
    parameter, as `--set` takes it. changed: the names of the parameters that were not the attack's defaults.
    """

    attack: str
    attacks: Path | None
    round: str
    params: dict[str, str]
    changed: tuple[str, ...]
    seed: int
    limit: int | None
    budget: str | None
    target: str | None
    revision: str | None
    reference: str | None
    device: str
    devices: str | None
    shard_target: bool
    dtype: str
    threads: int | None

    @property
    def form_values(self) -> dict[str, str]:
        """The texts of a form: an option by its name with two dashes, a parameter by its name."""
        options = {
            "--round": self.round,
            "--target": self.target,
            "--reference": self.reference,
            "--budget": self.budget,
            "--seed": str(self.seed),
            "--limit": None if self.limit is None else str(self.limit),
            "--device": self.device,
            "--dtype": self.dtype,
        }
        return {**self.params, **{name: text for name, text in options.items() if text is not None}}


def recorded_options(spec: AttackSpec) -> RecordedOptions:
    """Return the options that start a run with this spec again."""
    target, reference, round_ = spec.target, spec.reference, spec.round
    folder = Path(spec.attack.origin.removeprefix(NAMED_FOLDER))
    is_in_folder = spec.attack.origin.startswith(NAMED_FOLDER) and folder.is_dir()
    is_other_target = target is not None and target.id != round_.target
    revision = "main" if is_other_target else round_.revision
    shards = () if target is None else target.shards
    workers, cores = max(1, len(spec.devices)), spec.hardware.get("cores", 0)
    is_threads_default = target is None or target.threads == cores // workers
    return RecordedOptions(
        attack=spec.attack.name,
        attacks=folder if is_in_folder else None,
        round=_round_option(round_),
        params={name: setting_text(value) for name, value in spec.params.items()},
        changed=spec.changed,
        seed=spec.seed,
        limit=spec.examples if spec.is_partial else None,
        budget=None if spec.budget == round_.budget else duration_text(spec.budget),
        target=target.id if target is not None and is_other_target else None,
        revision=target.revision if target is not None and target.revision != revision else None,
        reference=None if reference is None or reference.id == spec.attack.reference_model else reference.id,
        device="auto" if target is None or spec.devices or shards else target.device,
        devices=_devices_option(spec.devices or shards),
        shard_target=bool(shards),
        dtype="auto" if target is None else target.dtype,
        threads=None if target is None or is_threads_default else target.threads * workers,
    )


def _devices_option(devices: tuple[str, ...]) -> str | None:
    """Return the value of `--devices`; None for a run on one device."""
    if not devices:
        return None
    if set(devices) == {"cpu"}:
        return f"cpu:{len(devices)}"
    if cluster_of(devices[0]) is not None:
        return f"{devices[0]}*{len(devices)}"
    return ",".join(device.removeprefix("cuda:") for device in devices)


def _round_option(round_: Round) -> str:
    """Return the value of `--round`: the name of a shipped round, else its file."""
    suffix = "" if round_.fold is None else f":fold{round_.fold.index}of{round_.fold.folds}"
    source = round_.source
    # The file may be a shipped one of an installation that is gone.
    if source is not None and source.exists() and source not in shipped_rounds().values():
        return f"{source}{suffix}"
    return round_.name.removesuffix(suffix) + suffix
