"""How the figures of a sequence audit are to be read, in sentences that quote no text."""

from collections import Counter

from harness.audits.sequence.completing import State
from harness.audits.sequence.material import Control, Material, Reading
from harness.audits.sequence.measures import Completed
from harness.audits.sequence.params import SequenceParams
from harness.audits.sequence.rates import SIDES, Contrasts, Rate
from harness.audits.sequence.shared_runs import RUN
from harness.audits.sequence.thresholds import TITLES
from harness.core.text import pluralize


def sentences_on(
    params: SequenceParams, material: Material, done: Completed, contrasts: Contrasts, model: str
) -> list[str]:
    side = SIDES[material.control]
    length = material.prompt_length
    prompt = "a round's own prefixes" if length is None else f"the first {pluralize(length, 'word')} each"
    how = "the most likely token at each step" if params.temperature == 0 else f"draws at {params.temperature:g}"
    shown = f"{pluralize(int((done.own.is_there & ~material.is_control).sum()), 'paragraph')} of the corpus"
    if material.control is Control.CORPUS:
        shown += f" and {int((done.own.is_there & material.is_control).sum()):,} of the control"
    said = [
        f"{model} was shown the start of {shown}, {prompt}, and went on by {how}; what it wrote was cut to the number "
        "of words that followed, and held against them."
    ]
    for threshold, found in contrasts.items():
        if found.corpus.of and found.control.of:
            said.append(
                f"{TITLES[threshold].capitalize()}: {_percent(found.corpus)} on the corpus, "
                f"{_percent(found.control)} on the {side}{_p(found.p_value)}."
            )
    said += _about_control(material)
    said += _about_reading("the corpus", material.corpus_reading, params)
    if material.control_reading is not None:
        said += _about_reading("the control", material.control_reading, params)
    said += _about_states(done)
    said.append(
        "Intervals and tests take paragraphs as independent. Those of one document are not: where one gives many "
        "paragraphs, the truth may be much less certain than they say."
    )
    return [*said, *material.notes]


def _about_control(material: Material) -> list[str]:
    if material.control is Control.PERMUTED:
        if len(material) < 2:
            return ["One paragraph alone has no control: its rates prove nothing."]
        return [
            "The control is permuted suffixes: each completion beside the suffix of another paragraph of like length. "
            "It shows chance overlap only; what a model that never saw the corpus would complete of it, only unseen "
            "text of the same kind can tell (--control). The test is the paired exact permutation test of each "
            "completion's two verdicts."
        ]
    said = [
        "The control is other paragraphs, taken as unseen by the model; they belong to no pairs with the corpus's, so "
        "that the test is Fisher's exact one, over all ways to divide the paragraphs into corpus and control."
    ]
    shared = material.is_shared
    if shared.any():
        mine, theirs = int((shared & ~material.is_control).sum()), int((shared & material.is_control).sum())
        said.append(
            f"{pluralize(mine, 'paragraph')} of the corpus and {theirs:,} of the control share a run of {RUN} words "
            "with the other side: the control's rates and the tests are taken without them, and so is the difference."
        )
    return said


def _about_reading(side: str, reading: Reading, params: SequenceParams) -> list[str]:
    parts = []
    if reading.too_short:
        parts.append(f"{reading.too_short:,} without a word behind the prompt")
    if reading.repeated:
        parts.append(f"{pluralize(reading.repeated, 'repetition')}, counted and asked once")
    if reading.not_chosen:
        parts.append(f"{reading.not_chosen:,} beyond the limit of {params.limit:,}, by a seeded draw")
    said = []
    if parts:
        said.append(f"Of {pluralize(reading.paragraphs, 'paragraph')} of {side} left out: {'; '.join(parts)}.")
    if reading.shortened:
        longest = pluralize(params.longest_suffix, "word")
        suffixes = "1 suffix is" if reading.shortened == 1 else f"{reading.shortened:,} suffixes are"
        said.append(f"Of {side}, {suffixes} longer than {longest}, and compared up to there.")
    return said


def _about_states(done: Completed) -> list[str]:
    states = Counter(done.states)
    said = []
    if number := states[None]:
        were = "was" if number == 1 else "were"
        said.append(f"{pluralize(number, 'paragraph')} {were} not asked for: the figures are of those that were.")
    if number := states[State.NO_ROOM]:
        said.append(
            f"{pluralize(number, 'paragraph')} left out: prompt and suffix take more tokens than the model's context, "
            "or the prompt has none of its tokens."
        )
    if number := states[State.UNANSWERED]:
        faults = Counter(fault for fault, state in zip(done.faults, done.states, strict=True) if state == "unanswered")
        reasons = "; ".join(f"it {fault}, {pluralize(times, 'time')}" for fault, times in sorted(faults.items()))
        count = "counts" if number == 1 else "count"
        said.append(f"{pluralize(number, 'paragraph')} got no answer from the endpoint and {count} nowhere: {reasons}.")
    return said


def _percent(rate: Rate) -> str:
    return f"{100 * rate.rate:.1f} % [{100 * rate.low:.1f}, {100 * rate.high:.1f}] of {rate.of:,}"


def _p(p_value: float | None) -> str:
    return "" if p_value is None else f" (p {'< 0.0001' if p_value < 1e-4 else f'= {p_value:.4f}'})"
