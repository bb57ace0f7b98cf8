"""The entities audit: confidences of every name in every prompt, prompt engineering, and attention to the name."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.audits.entities.findings import entities_findings
from harness.audits.entities.inputs import Names
from harness.audits.entities.measures import MEASURES, PROMPTS_M_MEM, score_pairs
from harness.audits.entities.prompts import MASK, Prompt
from harness.audits.entities.results import Chain, ModelResult, select_rows
from harness.audits.options import AuditParams
from harness.audits.report import finite_mean
from harness.core.arrays import Bools, Floats, Ints
from harness.core.attack import Field
from harness.core.audit import Audit, AuditContext, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.options import option
from harness.core.rows import Kind, table
from harness.core.spec import TargetConfig

if TYPE_CHECKING:
    from harness.audits.classifier import PromptTokens, Span, TokenClassifier

_PROMPTS_PER_BATCH = 4
_TYPICAL_LENGTH = 10
_ATTENTION_WEIGHT = 2.0


class Attention(NamedTuple):
    """Attention between the tokens of a prompt, in which the tokens of the name are one.

    tokens: their texts, special tokens included. weights: [names, tokens, tokens], query first.
    """

    tokens: list[str]
    name: int
    """Index of the name in `tokens`."""
    weights: Floats


class NameProbe:
    """A token classifier, and the names to ask about. has_tokens: [names] the vocabulary has tokens for the name."""

    def __init__(self, config: TargetConfig, names: Sequence[str], labels: Sequence[str], *, by_set: bool) -> None:
        """Load the model. Raises HarnessError if it is not a token classifier, or has none of the labels."""
        from harness.audits.classifier import load_classifier  # loads torch

        self.classifier: TokenClassifier = load_classifier(config.path, **config.loading)
        self.names = names
        self.labels: Ints = self.classifier.label_ids(labels)
        self.by_set = by_set
        self.has_tokens: Bools = self.classifier.has_tokens(names)

    def confidences(self, prompt: Prompt, subset: Ints | None = None) -> Floats:
        """Return the confidence of each name in the prompt, [names]; NaN for names without one or not in `subset`."""
        with_tokens = np.flatnonzero(self.has_tokens) if subset is None else subset[self.has_tokens[subset]]
        texts, spans = self._fill(prompt, with_tokens)
        result = np.full(len(self.names), np.nan)
        result[with_tokens] = self.classifier.confidences(texts, spans, self.labels, by_set=self.by_set)
        return result

    def tokens(self, prompt: Prompt) -> "PromptTokens":
        """Return the model's tokens of the prompt, in which the name is one token."""
        from harness.audits.classifier import Span

        return self.classifier.prompt_tokens(prompt.text, Span(prompt.name_start, prompt.name_start + len(MASK)))

    def attention(self, prompt: Prompt, subset: Ints) -> Attention:
        """Return the attention between the prompt's tokens by name, NaN for names without one or not in `subset`."""
        from harness.audits.classifier import Span

        tokens = self.tokens(prompt)
        subset = subset[self.has_tokens[subset]]
        texts, names = self._fill(prompt, subset)
        parts = []
        for name in names:
            longer = name.end - name.start - len(MASK)
            before = [span for span in tokens.spans if span.end <= name.start]
            after = tokens.spans[len(before) + 1 :]
            parts.append([*before, name, *(Span(span.start + longer, span.end + longer) for span in after)])
        weights = np.full((len(self.names), len(tokens.labels), len(tokens.labels)), np.nan)
        for number, of_name in zip(subset.tolist(), self.classifier.attention(texts, parts), strict=True):
            if of_name is not None:
                weights[number] = of_name
        return Attention(tokens.labels, tokens.name, weights)

    def _fill(self, prompt: Prompt, with_tokens: Ints) -> "tuple[list[str], list[Span]]":
        """Return the prompt with each name, and the characters of the name."""
        from harness.audits.classifier import Span

        names = [self.names[name] for name in with_tokens.tolist()]
        start = prompt.name_start
        return [prompt.fill(name) for name in names], [Span(start, start + len(name)) for name in names]


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

    match: Match = Field(
        Match.OFFSETS,
        description="Tokens that count as the name. offsets: those at its place; source: all that it contains.",
    )
    labels: tuple[str, ...] = option(
        (), name="label", unset="PER or PERSON", description="Label of the model for a person; repeatable."
    )
    attention_prompts: int = Field(3, ge=1, le=200, description="Measure attention in the N best and N worst prompts.")


class EntitiesAudit(Audit[EntitiesParams]):
    """Is a token classifier more confident about names that it was trained on than about other names?"""

    name = "entities"
    title = "Names that a model was trained on"
    reference = "Xia et al. 2024, Exploring prompts to elicit memorization in masked language model-based NER"
    tables = (
        table("confidence", **_integers("model", "prompt", "tokens", "position"), values=Kind.REALS),
        table("engineered", **_integers("model", "chain", "step"), text=Kind.TEXT, values=Kind.REALS),
        table("word", **_integers("model", "chain", "step", "word"), text=Kind.TEXT, added=Kind.REAL, share=Kind.REAL),
        table("attention", **_integers("model", "prompt"), values=Kind.REALS),
        table(
            "attention_weight",
            **_integers("model", "prompt", "query", "key"),
            text=Kind.TEXT,
            inside=Kind.REAL,
            outside=Kind.REAL,
        ),
    )
    measures = MEASURES
    live = (PROMPTS_M_MEM,)
    inputs_type = Names

    def run(self, context: AuditContext) -> None:
        if not context.models:
            raise HarnessError("the entities audit needs a local model. Give --target.")
        names = context.inputs.all
        faults: list[HarnessError] = []
        for model in range(len(context.models)):
            _announce(context, model, self.params.attention_prompts)
        for model, config in enumerate(context.models):
            try:
                with context.loading():
                    probe = NameProbe(config, names, self.params.labels, by_set=self.params.match is Match.SOURCE)
            except HarnessError as error:
                # The other models can still be measured.
                faults.append(error)
                _cancel_stages(context, _stages(model))
                if len(context.models) > 1:
                    context.warn(f"Model {model + 1} is left out: {error}")
                continue
            measurement = _Measurement(context, probe, model)
            measurement.measure_prompts()
            result = ModelResult(context.inputs, context.rows, model)
            if not result.is_complete:
                return
            if not result.has_pairs:
                context.warn(f"Model {model + 1} has too few usable names or prompts to compare.")
                _cancel_stages(context, _stages(model)[1:])
                continue
            for chain in Chain:
                measurement.engineer(result, chain)
            measurement.measure_attention(result, self.params.attention_prompts)
        if len(faults) == len(context.models):
            raise faults[0]

    def findings(self, inputs: Names, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return entities_findings(inputs, rows, models)


def _stages(model: int) -> tuple[str, str, str, str]:
    """Return the stages of a model: the confidences, the chain of the best and of the worst prompt, the attention."""
    best, worst = (f"{chain.name.lower()} prompt {model + 1}" for chain in Chain)
    return f"confidence {model + 1}", best, worst, f"attention {model + 1}"


def _announce(context: AuditContext, model: int, attention_prompts: int) -> None:
    """Announce the stages of one model. The lengths of its best and worst prompts are not known yet."""
    confidence, *chains, attention = _stages(model)
    context.announce(confidence, len(context.inputs.measured_prompts))
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


class _Measurement:
    """The stages of one model."""

    def __init__(self, context: AuditContext, probe: NameProbe, model: int) -> None:
        self._context, self._probe, self._model = context, probe, model
        self._stages = _stages(model)

    def _emit(self, table: str, **columns: Any) -> None:
        """Emit rows of the model. A number is the value of all rows."""
        self._context.emit(table, model=self._model, **columns)

    def measure_prompts(self) -> None:
        """Emit a row of confidences for every prompt."""
        context, probe = self._context, self._probe
        prompts = context.inputs.measured_prompts
        for batch in context.batches(self._stages[0], len(prompts), size=_PROMPTS_PER_BATCH):
            if batch.items[0] == 0 and (lost := int((~probe.has_tokens).sum())):
                context.warn(
                    f"Model {self._model + 1}: its vocabulary has no tokens for {lost} of {len(probe.names)} names."
                )
            tokens = [probe.tokens(prompts[prompt]) for prompt in batch.items]
            self._emit(
                "confidence",
                prompt=batch.items,
                tokens=[of_prompt.length for of_prompt in tokens],
                position=[of_prompt.position for of_prompt in tokens],
                values=np.array([probe.confidences(prompts[prompt]) for prompt in batch.items]),
            )

    def engineer(self, result: ModelResult, chain: Chain) -> None:
        """Drop one word per batch: measure all names in the rest, and the dev half's without each of its words."""
        from scipy.special import softmax  # slow to import

        first = result.first_prompt(chain)
        words = len(result.prompts[first].droppable)
        dev = np.concatenate(result.dev)

        def dev_m_mem(confidences: Floats) -> float:
            return score_pairs(*(confidences[names] for names in result.dev)).m_mem

        # The last step has one word. A prompt of the name alone has a single step.
        stage, steps = self._stages[1 + chain], max(1, words)
        for batch in self._context.batches(stage, steps, size=1, weight=_chain_weight(words)):
            step = int(batch.items[0])
            place = {"chain": int(chain), "step": step}
            prompt = self._prompt_at(result, chain, step)
            whole = self._probe.confidences(prompt) if step else result.confidences[first]
            self._emit("engineered", **place, text=[prompt.text], values=whole[None, :])
            if not prompt.droppable:
                continue
            without = [dev_m_mem(self._probe.confidences(prompt.without(word), dev)) for word in prompt.droppable]
            added = dev_m_mem(whole) - np.array(without)
            texts = [prompt.words[word].text for word in prompt.droppable]
            share = softmax(added)
            self._emit("word", **place, word=prompt.droppable, text=texts, added=added, share=share)

    def _prompt_at(self, result: ModelResult, chain: Chain, step: int) -> Prompt:
        """Return the chain's prompt after `step` words were dropped, from the rows of the step before."""
        first = result.prompts[result.first_prompt(chain)]
        if step == 0:
            return first
        rows, before = self._context.rows, {"model": self._model, "chain": chain, "step": step - 1}
        (text,) = select_rows(rows("engineered"), **before)["text"]
        words = select_rows(rows("word"), "word", **before)
        dropped = (np.argmin if chain is Chain.BEST else np.argmax)(words["added"])
        return Prompt(text, first.kind).without(int(words["word"][dropped]))

    def measure_attention(self, result: ModelResult, number: int) -> None:
        """Measure the attention in the `number` best and worst prompts, with the names of the dev half."""
        order = result.used[np.argsort(-result.dev_m_mem, kind="stable")]
        prompts = list(dict.fromkeys([*order[:number].tolist(), *order[::-1][:number].tolist()]))
        for batch in self._context.batches(self._stages[-1], len(prompts), size=1, weight=_ATTENTION_WEIGHT):
            place = prompts[int(batch.items[0])]
            tokens, name, weights = self._probe.attention(result.prompts[place], np.concatenate(result.dev))
            to_name = np.delete(weights[:, :, name], name, axis=1)
            self._emit("attention", prompt=place, values=to_name.mean(axis=1)[None, :])
            queries, keys = np.indices(weights.shape[1:]).reshape(2, -1)
            self._emit(
                "attention_weight",
                prompt=place,
                query=queries,
                key=keys,
                text=[tokens[query] for query in queries],
                inside=[finite_mean(of_pair) for of_pair in weights[result.dev.inside][:, queries, keys].T],
                outside=[finite_mean(of_pair) for of_pair in weights[result.dev.outside][:, queries, keys].T],
            )
