"""`harness bench`: how fast this machine samples and searches a target."""

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from harness.cli.options import Device, DeviceOptions, Json, Round, Threads, round_or_default
from harness.cli.output import align_columns, print_json, sanitize, say
from harness.cli.resolving import require_device
from harness.core.calibration import SHIPPED_MACHINES, Calibration
from harness.core.errors import HarnessError
from harness.core.examples import load_prefixes
from harness.core.extras import require_extra
from harness.core.rounds import load_round
from harness.core.text import format_number
from harness.engine.resolving import require_capacity, require_round_vocabulary, resolve_target
from harness.runs.calibration import store_calibration, stored_calibrations
from harness.runs.machine import usable_cores, versions
from harness.supervisor.calibrations import device_key
from harness.supervisor.devices import matching_devices

_MAX_SPREAD = 0.2
"""Difference of the highest and the lowest rate, relative to the median, above which a warning is printed."""

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
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure a fixed workload, for budgets in standard seconds.")
    ] = False,
    json: Json = False,
) -> None:
    """Measure the sampling and search speed of this machine.

    Each turn runs the harness and the arithmetic of the official baseline in one process. With --calibrate, the model
    and the prefixes are fixed, and the rates are stored for later runs; only --device and --threads apply then.
    """
    if calibrate:
        given = {"--target": target != "demo", "--round": round_, "--dtype": dtype}
        if option := next((name for name, is_given in given.items() if is_given), None):
            raise typer.BadParameter(
                f"cannot be used together with {option}: its workload is fixed.", param_hint="--calibrate"
            )
        require_extra("torch", "`harness bench`")
        _calibrate(require_device(DeviceOptions(device, "auto", threads)), threads or usable_cores(), json=json)
        return
    require_extra("torch", "`harness bench`")
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


def _calibrate(device: str, threads: int, *, json: bool) -> None:
    """Measure the device on the fixed workload, store the rates and print them."""
    chosen = matching_devices(device)[0]
    product, cpu_threads = device_key(chosen, threads)
    # A damaged file is reported before the measurement.
    stored_calibrations()

    from harness.bench.calibration import calibrate

    found = calibrate(chosen.name, product=product, threads=cpu_threads, versions=versions(), on_progress=say)
    file = store_calibration(found)
    relative = {name: found.relative_to(machine) for name, machine in SHIPPED_MACHINES.items()}
    if json:
        machines = {name: machine.model_dump() for name, machine in SHIPPED_MACHINES.items()}
        print_json({**found.model_dump(), "file": str(file), "relative_to": relative, "machines": machines})
    else:
        print(_calibration_text(found))
        say(f"stored in {file}")
    if found.spread > _MAX_SPREAD:
        say(f"the rates differ by {found.spread:.0%} between turns: is the machine busy? Calibrate it when it is idle.")


def _calibration_text(found: Calibration) -> str:
    """Return a calibration as text: its rates, and what the machine is worth in each shipped machine."""
    rates = (
        ("official arithmetic", found.official_per_s, found.official_lowest, found.official_highest),
        ("engine, 1 trial", found.engine_per_s, found.engine_lowest, found.engine_highest),
    )
    rows = [(name, *map(format_number, values)) for name, *values in rates]
    worth = [
        f"this machine = {format_number(found.relative_to(machine))} {machine.title}\n{machine.name}: {machine.source}"
        for machine in SHIPPED_MACHINES.values()
    ]
    header = ("", "suffixes/s", "lowest", "highest")
    title = f"{sanitize(found.title)}, {found.workload}, {found.turns} turns"
    return "\n".join([title, align_columns([header, *rows]), *worth])


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
