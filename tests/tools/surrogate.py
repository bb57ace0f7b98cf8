"""Train a small stand-in for GPT-Neo 1.3B on real rows of the challenge: `python -m tests.tools.surrogate`.

It takes 45 minutes on two cores. The surrogate reads each of the training rows 12,000 to 14,999 of the challenge in 1
to 20 copies, in two passes. Each copy begins at one of the first 102 tokens of its row, as in a pre-training corpus, so
the prefix has no fixed position and is rarely the beginning. The learning rate falls to zero in each pass.
"""

import argparse
import math
from pathlib import Path
from random import Random
from shutil import copyfile

from harness.core.arrays import Tokens
from harness.core.errors import HarnessError
from tests.bench.inputs import SURROGATE
from tests.bench.measuring import exit_on_error
from tests.demo_target.training import Schedule, build_model, progress_printer, save_in_half_precision, train
from tests.tools.data import SATML, gpt2_tokenizer, training_rows, what_is_missing

SEED = 2023
FIRST_MEMORIZED = 12_000
MAX_COPIES = 20
PASSES = 2
ROWS_PER_STEP = 16
SAMPLED = 4_096
VOCABULARY, WIDTH, HEADS = 50_257, 192, 6


def memorized(rows: Tokens) -> tuple[Tokens, list[int]]:
    """Return the rows that the surrogate reads, and the order of their copies, whose numbers are log-uniform."""
    read = rows[FIRST_MEMORIZED:]
    random = Random(SEED)
    copies = [row for row in range(len(read)) for _ in range(int(MAX_COPIES ** random.random() + 0.5))]
    random.shuffle(copies)
    return read, copies


def main() -> None:
    """Train the surrogate and write it in Hugging Face layout, with the tokenizer of GPT-2."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.surrogate", description=__doc__)
    parser.add_argument("--out", type=Path, default=SURROGATE, help="directory of the model (default: %(default)s)")
    folder = parser.parse_args().out
    if missing := what_is_missing(SATML):
        raise HarnessError(missing)
    tokenizer = gpt2_tokenizer()
    rows, copies = memorized(training_rows())
    steps = math.ceil(len(copies) / ROWS_PER_STEP)
    print(f"{len(rows):,} rows, {len(copies):,} copies, {steps:,} steps a pass", flush=True)
    model = build_model(VOCABULARY, SEED, width=WIDTH, heads=HEADS, end_of_text=VOCABULARY - 1)
    schedule = Schedule(steps=steps, rows=ROWS_PER_STEP, cool_down=steps // 2)
    for seed in range(SEED, SEED + PASSES):
        report = progress_printer(steps)
        train(model, rows.tolist(), copies, schedule, seed, report, longest=rows.shape[1], sampled=SAMPLED)
    save_in_half_precision(model, folder)
    copyfile(tokenizer, folder / "tokenizer.json")
    print(f"wrote {folder}")


if __name__ == "__main__":
    with exit_on_error():
        main()
