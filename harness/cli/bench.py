"""`harness bench`: how fast this machine samples and searches a target."""

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.output import align_columns, print_json, say

if TYPE_CHECKING:
    from harness.engine.benchmark import Measured


def bench(
    target: Annotated[str, typer.Option(metavar="TARGET", help="`demo`, a folder, or a hub id.")] = "demo",
    round_name: Annotated[
        str, typer.Option("--round", metavar="ROUND", help="A round's name or file: whose prefixes to use.")
    ] = "demo",
    revision: Annotated[str, typer.Option(metavar="REV", help="A hub target's revision.")] = "main",
    prefixes: Annotated[int, typer.Option(min=2, help="Prefixes, spread evenly over the round.")] = 256,
    turns: Annotated[int, typer.Option(min=1, help="Turns, each on its own share of the prefixes.")] = 4,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    dtype: Annotated[
        list[str] | None, typer.Option(metavar="DTYPE", help="Measure in this dtype; may be given again.")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="CPU threads; all usable cores by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """Measure sampling and searching against the official baseline's arithmetic, turn by turn in one process."""
    import numpy as np

    from harness.core.errors import HarnessError
    from harness.core.examples import load_prefixes
    from harness.core.rounds import load_round
    from harness.engine.devices import resolve_device
    from harness.engine.resolving import require_capacity, resolve_target
    from harness.runs.machine import usable_cores

    round_ = load_round(round_name)
    found = resolve_target(target, revision)
    require_capacity(found, round_)
    all_ = load_prefixes(round_)
    if len(all_) < prefixes:
        raise HarnessError(f"{round_.name} has {len(all_)} prefixes; --prefixes {prefixes} are asked for.")
    if prefixes < turns:
        raise HarnessError(f"--turns {turns} need at least as many prefixes, not {prefixes}.")
    chosen = all_[np.linspace(0, len(all_) - 1, prefixes).round().astype(int)]

    from harness.engine.benchmark import measure

    measured = measure(
        found.path,
        chosen,
        length=round_.suffix_length,
        device=resolve_device(device),
        dtypes=tuple(dict.fromkeys(dtype)) if dtype else None,
        threads=threads or usable_cores(),
        turns=turns,
        on_progress=lambda what, done, total: say(f"{done} of {total}: {what} …"),
    )
    if json:
        print_json(measured.as_json())
        return
    print(described(measured))


def described(measured: "Measured") -> str:
    """A measurement as text: what the machine does, a table, and the ratios."""
    rates = [
        f"{dtype}: {rate.matmul / 1e9:,.0f} GFLOP/s in products, {rate.copy / 1e9:.1f} GB/s copied"
        for dtype, rate in measured.rates.items()
    ]
    table = [
        (
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
        )
    ]
    table += [
        (
            row.what,
            row.dtype,
            f"{row.suffixes_a_second:.4g}",
            f"{row.lowest:.4g}",
            f"{row.highest:.4g}",
            f"{row.times_official:.1f}",
            f"{row.evaluations_a_suffix:.1f}",
            f"{row.peak_bytes / 2**20:,.0f}",
            " + ".join(f"{part / 1e3:.3g}" for part in astuple(row.roofline)) + " ms",
            f"{row.of_roofline:.2f}",
        )
        for row in measured.rows
    ]
    parts = [
        f"{Path(measured.target).name} on {measured.device}, {measured.threads} threads, "
        f"{measured.prefixes} prefixes in {measured.turns} turns",
        *rates,
        align_columns(table),
        align_columns([(name, f"{ratio:.1f}") for name, ratio in measured.ratios.items()]),
    ]
    parts.append("¹ a suffix at the rates above: products with weights + attention's keys and values + head")
    if measured.device == "cpu":
        parts.append("on a GPU: not measured, since none is here or --device cpu was asked for")
    return "\n".join(parts)
