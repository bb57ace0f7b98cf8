"""`harness bench`: how fast this machine samples and searches a target."""

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from harness.cli.options import Device, DeviceOptions, Json, Round, Threads, round_or_default
from harness.cli.output import align_columns, print_json, say
from harness.cli.resolving import require_device
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.rounds import load_round
from harness.core.text import format_number
from harness.engine.resolving import require_capacity, require_round_vocabulary, resolve_target
from harness.runs.machine import usable_cores

if TYPE_CHECKING:
    from harness.bench.speed import Measured


def bench(
    target: Annotated[str, typer.Option(metavar="TARGET", help="demo, a directory, or a hub id.")] = "demo",
    round_: Round = None,
    revision: Annotated[str, typer.Option(help="Revision of a hub target.")] = "main",
    prefixes: Annotated[int, typer.Option(min=2, help="Number of prefixes, spread evenly over the round.")] = 256,
    turns: Annotated[int, typer.Option(min=1, help="Number of turns, each on its own prefixes.")] = 4,
    device: Device = "auto",
    dtype: Annotated[list[str] | None, typer.Option(metavar="DTYPE", help="Precision to measure; repeatable.")] = None,
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Measure the sampling and search speed of this machine.

    Each turn runs the harness and the arithmetic of the official baseline in one process.
    """
    dtypes = tuple(dict.fromkeys(dtype or ()))
    for name in dtypes or ("auto",):
        device = require_device(DeviceOptions(device, name, threads))
    if prefixes < turns:
        raise typer.BadParameter(f"needs at least one prefix per turn, not {prefixes}.", param_hint="--turns")
    loaded = load_round(round_or_default(round_))
    found = resolve_target(target, revision)
    require_capacity(found, loaded)
    require_round_vocabulary(found, loaded)
    all_prefixes = load_prefixes(loaded)
    if len(all_prefixes) < prefixes:
        raise HarnessError(f"{loaded.name} has {len(all_prefixes)} prefixes. Lower --prefixes {prefixes}.")
    chosen = all_prefixes[np.linspace(0, len(all_prefixes) - 1, prefixes).round().astype(int)]

    from harness.bench.speed import measure

    measured = measure(
        found.path,
        chosen,
        length=loaded.suffix_length,
        device=device,
        vocabulary=loaded.vocabulary,
        dtypes=dtypes or None,
        threads=threads or usable_cores(),
        turns=turns,
        on_progress=lambda what, done, total: say(f"{done} of {total}: {what} …"),
    )
    print_json(measured.as_json()) if json else print(measured_text(measured))


def measured_text(measured: "Measured") -> str:
    """Return a measurement as text: the rates of the machine, a table, and the ratios."""
    rates = [
        f"{dtype}: {format_number(rate.matmul / 1e9)} GFLOP/s in products, {format_number(rate.copy / 1e9)} GB/s copied"
        for dtype, rate in measured.rates.items()
    ]
    header = [
        "",
        "dtype",
        "suffixes/s",
        "lowest",
        "highest",
        "× official",
        "evaluations/suffix",
        "peak MiB",
        "roofline¹",
        "of it",
    ]
    rows = [
        (
            row.what,
            row.dtype,
            format_number(row.suffixes_a_second),
            format_number(row.lowest),
            format_number(row.highest),
            format_number(row.times_official),
            format_number(row.evaluations_a_suffix),
            f"{row.peak_bytes / 2**20:,.0f}",
            " + ".join(format_number(part / 1e3) for part in astuple(row.roofline)) + " ms",
            format_number(row.of_roofline),
        )
        for row in measured.rows
    ]
    parts = [
        f"{Path(measured.target).name} on {measured.device}, {measured.threads} threads, "
        f"{measured.prefixes} prefixes in {measured.turns} turns",
        *rates,
        align_columns([header, *rows]),
        align_columns([(name, format_number(ratio)) for name, ratio in measured.ratios.items()]),
        "¹ time of a suffix at the rates above: weights + attention's keys and values + head",
    ]
    if measured.device == "cpu":
        parts.append("GPU: not measured (there is none, or --device cpu was given)")
    return "\n".join(parts)
