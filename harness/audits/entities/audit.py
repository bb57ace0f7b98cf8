"""The entities audit: confidences of every name in every prompt, prompt engineering, and attention to the name."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.audits.entities.findings import entities_findings
from harness.audits.entities.inputs import MASK, Prompt
from harness.audits.entities.measures import MEASURES
from harness.audits.entities.results import (
    Chain,
    Measurements,
    all_names,
    importances,
    measured_prompts,
    prompt_at,
)
from harness.audits.entities.statistics import Placements, delong_interval, placements
from harness.audits.options import AuditParams, option
from harness.audits.report import finite_mean
from harness.core.arrays import Bools, Floats, Ints
from harness.core.attack import Field
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.rows import Kind, table
from harness.core.spec import TargetConfig

if TYPE_CHECKING:
    from harness.audits.classifier import NameAttention, Span, TokenClassifier


class Attention(NamedTuple):
    """Attention of the other words of a prompt to the name. of_name: [names] their mean; of_word: [words, names]."""

    of_name: Floats
    of_word: Floats


class NameProbe:
    """A token classifier, and the names to ask about. has_tokens: [names] the vocabulary has tokens for the name."""

    def __init__(self, config: TargetConfig, names: Sequence[str], labels: Sequence[str], *, by_set: bool) -> None:
        """Load the model. Raises HarnessError if it is not a token classifier, or has none of the labels."""
        from harness.audits.classifier import load_classifier  # loads torch

        self.classifier: TokenClassifier = load_classifier(
            config.path, device=config.device, dtype=config.dtype, threads=config.threads
        )
        self.names = names
        self.labels: Ints = self.classifier.label_ids(labels)
        self.by_set = by_set
        self.has_tokens: Bools = self.classifier.has_tokens(names)

    def confidences(self, prompt: Prompt, chosen: Ints | None = None) -> Floats:
        """Return the confidence of each name in the prompt, [names]; NaN for names without one or not `chosen`."""
        with_tokens = np.flatnonzero(self.has_tokens) if chosen is None else chosen[self.has_tokens[chosen]]
        texts, spans = self._fill(prompt, with_tokens)
        result = np.full(len(self.names), np.nan)
        result[with_tokens] = self.classifier.confidences(texts, spans, self.labels, by_set=self.by_set)
        return result

    def attention(self, prompt: Prompt) -> Attention:
        """Return the attention that each word of the prompt gives to each name, NaN if there is none."""
        with_tokens = np.flatnonzero(self.has_tokens)
        texts, spans = self._fill(prompt, with_tokens)
        result = Attention(np.full(len(self.names), np.nan), np.full((prompt.length, len(self.names)), np.nan))
        for name, attended in zip(with_tokens.tolist(), self.classifier.attention(texts, spans), strict=True):
            if attended is None:
                continue
            if not attended.is_name.all():
                result.of_name[name] = attended.to_name[~attended.is_name].mean()
            result.of_word[:, name] = _word_means(prompt, len(self.names[name]), attended)
        return result

    def _fill(self, prompt: Prompt, with_tokens: Ints) -> "tuple[list[str], list[Span]]":
        """Return the prompt with each name, and the characters of the name."""
        from harness.audits.classifier import Span

        names = [self.names[name] for name in with_tokens.tolist()]
        start = prompt.name_start
        return [prompt.fill(name) for name in names], [Span(start, start + len(name)) for name in names]


def _word_means(prompt: Prompt, name_length: int, attended: "NameAttention") -> Floats:
    """Return the mean attention of each word's tokens, [words]; NaN for a word without tokens."""
    longer = name_length - len(MASK)
    means = np.full(prompt.length, np.nan)
    for place, word in enumerate(prompt.words):
        start = word.start + (longer if place > prompt.position else 0)
        end = word.end + (longer if place >= prompt.position else 0)
        is_of_word = np.minimum(attended.spans[:, 1], end) > np.maximum(attended.spans[:, 0], start)
        if is_of_word.any():
            means[place] = attended.to_name[is_of_word].mean()
    return means


_PROMPTS_PER_BATCH = 4
_TYPICAL_LENGTH = 10
_ATTENTION_WEIGHT = 2.0


def _integers(*names: str) -> dict[str, Kind]:
    return dict.fromkeys(names, Kind.INTEGER)


class Match(StrEnum):
    """The way in which the name's tokens are found in a sentence.

    OFFSETS: those that cover its characters.
    SOURCE: all tokens of the sentence that the name alone has too, as in the source.
    """

    OFFSETS = "offsets"
    SOURCE = "source"


class EntitiesParams(AuditParams):
    """Parameters of the measurement."""

    match: Match = Field(Match.OFFSETS, description="Tokens of a name: by its characters, or as in the source.")
    labels: tuple[str, ...] = option(
        (), name="label", description="Label for a person, if not PER or PERSON; repeatable."
    )
    attention_prompts: int = Field(3, ge=1, le=200, description="Best and worst prompts to measure attention in.")


class EntitiesAudit(Audit[EntitiesParams]):
    """Is a token classifier more confident about names that it was trained on than about other names?"""

    name = "entities"
    title = "Names that a model was trained on"
    reference = "Xia et al. 2024, Exploring prompts to elicit memorization in masked language model-based NER"
    tables = (
        table("confidence", **_integers("model", "prompt"), values=Kind.REALS),
        table("engineered", **_integers("model", "chain", "step"), text=Kind.TEXT, values=Kind.REALS),
        table("word", **_integers("model", "chain", "step", "word"), text=Kind.TEXT, added=Kind.REAL, share=Kind.REAL),
        table("attention", **_integers("model", "prompt"), values=Kind.REALS),
        table(
            "attended_word",
            **_integers("model", "prompt", "word"),
            text=Kind.TEXT,
            inside=Kind.REAL,
            outside=Kind.REAL,
        ),
    )
    measures = MEASURES

    def run(self, context: AuditContext) -> None:
        if not context.models:
            raise HarnessError("the entities audit needs a local model. Give --target.")
        names = all_names(context.inputs)
        faults: list[HarnessError] = []
        for model in range(len(context.models)):
            _announce(context, model, self.params.attention_prompts)
        for model, config in enumerate(context.models):
            try:
                probe = NameProbe(config, names, self.params.labels, by_set=self.params.match is Match.SOURCE)
            except HarnessError as error:
                # The other models can still be measured.
                faults.append(error)
                _cancel_stages(context, _stages(model))
                if len(context.models) > 1:
                    context.warn(f"Model {model + 1} is left out: {error}")
                continue
            _measure_prompts(context, probe, model)
            measured = Measurements(context.inputs, context.rows("confidence"), model)
            if not measured.is_complete:
                return
            if not measured.has_pairs:
                context.warn(f"Model {model + 1} has too few usable names or prompts to compare.")
                _cancel_stages(context, _stages(model)[1:])
                continue
            for chain in Chain:
                _engineer(context, probe, measured, model, chain)
            _measure_attention(context, probe, measured, model, self.params.attention_prompts)
        if len(faults) == len(context.models):
            raise faults[0]

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return entities_findings(inputs, rows, models)


def _stages(model: int) -> tuple[str, str, str, str]:
    """Return the stages of a model: the confidences, the chain of the best and of the worst prompt, the attention."""
    best, worst = (f"{chain.name.lower()} prompt {model + 1}" for chain in Chain)
    return f"confidence {model + 1}", best, worst, f"attention {model + 1}"


def _announce(context: AuditContext, model: int, attention_prompts: int) -> None:
    """Announce the stages of one model. The lengths of its best and worst prompts are not known yet."""
    confidence, *chains, attention = _stages(model)
    context.announce(confidence, len(measured_prompts(context.inputs)))
    for chain in chains:
        context.announce(chain, _TYPICAL_LENGTH, weight=_chain_weight(_TYPICAL_LENGTH))
    context.announce(attention, 2 * attention_prompts, weight=_ATTENTION_WEIGHT)


def _cancel_stages(context: AuditContext, stages: Sequence[str]) -> None:
    """Announce that stages are empty, so that progress does not wait for them."""
    for stage in stages:
        context.announce(stage, 0)


def _chain_weight(length: int) -> float:
    """Return the work of a step relative to one prompt with all names: one such, and the dev half without each word."""
    return 1 + length / 4


def _measure_prompts(context: AuditContext, probe: NameProbe, model: int) -> None:
    """Emit a row of confidences for every prompt."""
    prompts = measured_prompts(context.inputs)
    next_report = 0
    for batch in context.batches(_stages(model)[0], len(prompts), size=_PROMPTS_PER_BATCH):
        if batch.items[0] == 0 and (lost := int((~probe.has_tokens).sum())):
            context.warn(f"Model {model + 1}: its vocabulary has no tokens for {lost} of {len(probe.names)} names.")
        values = np.array([probe.confidences(prompts[prompt]) for prompt in batch.items])
        context.emit("confidence", model=np.full(len(values), model), prompt=batch.items, values=values)
        done = int(batch.items[-1]) + 1
        if done >= next_report or done == len(prompts):
            _report_scores(context, model)
            # A report takes time in proportion to the prompts, so the distance to the next one grows with them.
            next_report = done + done // 10


def _engineer(context: AuditContext, probe: NameProbe, measured: Measurements, model: int, chain: Chain) -> None:
    """Drop one word per batch: measure all names in the rest, and the dev half's names without each of its words."""
    first = measured.first_prompt(chain)
    length = measured.prompts[first].length
    dev = np.concatenate(measured.dev)
    stage, weight = _stages(model)[1 + chain], _chain_weight(length)
    for batch in context.batches(stage, length, size=1, weight=weight):
        step = int(batch.items[0])
        prompt = prompt_at(measured, context.rows, model, chain, step)
        whole = probe.confidences(prompt) if step else measured.confidences[first]
        context.emit(
            "engineered", model=[model], chain=[int(chain)], step=[step], text=[prompt.text], values=whole[None, :]
        )
        if not prompt.droppable:
            continue
        without = np.array(
            [finite_mean(probe.confidences(prompt.without(word), dev)[dev]) for word in prompt.droppable]
        )
        dev_mean = finite_mean(whole[dev])
        context.emit(
            "word",
            model=np.full(len(without), model),
            chain=np.full(len(without), int(chain)),
            step=np.full(len(without), step),
            word=prompt.droppable,
            text=[prompt.words[word].text for word in prompt.droppable],
            added=dev_mean - without,
            share=importances(dev_mean, without),
        )


def _measure_attention(
    context: AuditContext, probe: NameProbe, measured: Measurements, model: int, number: int
) -> None:
    """Measure the attention to the name in the `number` best and worst prompts."""
    order = measured.used[np.argsort(-measured.dev_m_mem, kind="stable")]
    chosen = list(dict.fromkeys([*order[:number].tolist(), *order[::-1][:number].tolist()]))
    inside, outside = measured.lists.values()
    for batch in context.batches(_stages(model)[-1], len(chosen), size=1, weight=_ATTENTION_WEIGHT):
        place = chosen[int(batch.items[0])]
        prompt = measured.prompts[place]
        attention = probe.attention(prompt)
        context.emit("attention", model=[model], prompt=[place], values=attention.of_name[None, :])
        context.emit(
            "attended_word",
            model=np.full(prompt.length, model),
            prompt=np.full(prompt.length, place),
            word=np.arange(prompt.length),
            text=[word.text for word in prompt.words],
            inside=[finite_mean(of_word) for of_word in attention.of_word[:, inside]],
            outside=[finite_mean(of_word) for of_word in attention.of_word[:, outside]],
        )


def _report_scores(context: AuditContext, model: int) -> None:
    """Report M-MEM in the dev half so far: the mean with its interval, the best and the worst prompt."""
    measured = Measurements(context.inputs, context.rows("confidence"), model)
    if not measured.has_pairs:
        return
    placed = [placements(*(confidences[side] for side in measured.dev)) for confidences in measured.used_confidences]
    low, high = delong_interval(Placements(*(np.mean(part, axis=0) for part in zip(*placed, strict=True))))
    prefix = f"{context.model_names[model]}: " if len(context.models) > 1 else ""
    m_mem, prompts = measured.dev_m_mem, len(measured.used)
    mean = float(m_mem.mean())
    context.figure(f"{prefix}mean M-MEM", mean, low=min(low, mean), high=max(high, mean), of=prompts)
    context.figure(f"{prefix}best prompt's M-MEM", float(m_mem.max()), of=prompts)
    context.figure(f"{prefix}worst prompt's M-MEM", float(m_mem.min()), of=prompts)
