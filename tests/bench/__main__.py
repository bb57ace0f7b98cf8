"""`make bench`: measure the figures of docs/explanation/results.md on this machine."""

import json
import sys
from functools import partial
from typing import Any

from harness.core.errors import HarnessError
from tests.bench import (
    architectures,
    book,
    demo,
    engine,
    entities,
    leakage,
    overhead,
    peers,
    rankers,
    real_target,
    rounds_make,
    schedule,
    scorer,
    screen,
    several_devices,
)
from tests.bench.inputs import target_name
from tests.bench.measuring import print_figures


def main() -> None:
    """Run all benchmarks. `--json` prints one line of JSON; `--full` measures as long as the page of results
    states.

    Figures are printed as soon as they are measured. Exit code 1: a benchmark lacks its data.
    """
    is_full, is_json = "--full" in sys.argv, "--json" in sys.argv
    figures: dict[str, dict[str, Any]] = {"target": {"name": target_name()}}
    print(f"the target is {target_name()}", file=sys.stderr, flush=True)
    lacking = 0
    for title, measure in {
        "scoring 100,000 rows": scorer.measure,
        "M-MEM of 400 prompts": entities.measure,
        "start-up": overhead.measure_start_up,
        "ingest": overhead.measure_ingest,
        "screen": partial(screen.measure, full=is_full),
        "demo": demo.measure,
        "engine": engine.measure,
        "architectures, relative to generate": architectures.measure,
        "batches of a run": schedule.measure,
        "two workers and two pieces, against one worker": several_devices.measure,
        "engine relative to CTranslate2": peers.measure,
        "leakage of 1,000 sequences": leakage.measure,
        "windows of a book, relative to a plain loop": book.measure,
        "rankers, Recall@100 on likeliest suffixes of the surrogate": rankers.measure,
        "recorded trials of GPT-Neo 1.3B": real_target.measure_all,
        "a round from a corpus": partial(rounds_make.measure, full=is_full),
        "overhead": partial(overhead.measure_overhead, full=is_full),
    }.items():
        print(f"measuring {title} …", file=sys.stderr, flush=True)
        try:
            figures[title] = measure()
        except HarnessError as error:
            figures[title] = {"not measured": str(error)}
            lacking += 1
        if not is_json:
            print(title)
            print_figures(figures[title])
    if is_json:
        print(json.dumps(figures))
    sys.exit(1 if lacking else 0)


if __name__ == "__main__":
    main()
