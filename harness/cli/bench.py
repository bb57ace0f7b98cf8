"""`harness doctor --bench`: how fast this machine samples and searches a target."""

from statistics import median

import numpy as np

from harness.cli.options import DeviceOptions, round_or_default
from harness.cli.output import align_columns, print_json, say
from harness.cli.resolving import require_device
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.extras import require_extra
from harness.core.rounds import load_round
from harness.core.text import format_number
from harness.engine.resolving import require_capacity, require_round_vocabulary, resolve_target
from harness.runs.machine import usable_cores


def measure_speed(
    target: str, round_name: str | None, compute: DeviceOptions, *, prefixes: int, turns: int, json: bool
) -> None:
    """Print the speed of the engine, and of `generate` of transformers as the challenge's baseline calls it.

    Each of the `turns` has its own `prefixes`. Raises HarnessError if the target does not fit the round, or the round
    has too few prefixes.
    """
    require_extra("torch", "`harness doctor --bench`")
    device = require_device(compute)
    loaded = load_round(round_or_default(round_name))
    model = resolve_target(target)
    require_capacity(model, loaded)
    require_round_vocabulary(model, loaded)
    rows = load_prefixes(loaded)
    if len(rows) < prefixes * turns:
        raise HarnessError(f"{loaded.name} has {len(rows)} prefixes. Lower --examples {prefixes} or --turns {turns}.")

    from harness.engine.loading import load_target
    from harness.engine.speed import measure

    length, threads = loaded.suffix_length, compute.threads or usable_cores()
    vocabulary = loaded.vocabulary
    measured = load_target(
        model.path, device=device, dtype=compute.dtype, threads=threads, suffix_length=length, vocabulary=vocabulary
    )
    spread = np.linspace(0, len(rows) - 1, prefixes * turns).round().astype(int)
    speeds = measure({compute.dtype: measured}, rows[spread], length=length, turns=turns, on_progress=say)
    columns = ("method", "suffixes_per_s", "lowest", "highest", "times_generate")
    table = [
        (speed.method, median(speed.rates), min(speed.rates), max(speed.rates), speed.relative_to(speeds[0]))
        for speed in speeds
    ]
    if json:
        options = {"target": target, "device": device, "examples": prefixes, "turns": turns}
        print_json({**options, "rows": [dict(zip(columns, row, strict=True)) for row in table]})
    else:
        header = ("", "suffixes/s", "lowest", "highest", "× generate")
        print(align_columns([header, *((name, *map(format_number, numbers)) for name, *numbers in table)]))
