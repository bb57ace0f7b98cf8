"""The entities audit: every name in every prompt, prompts engineered from the best and the worst, and attention."""

from enum import StrEnum

import numpy as np

from harness.audits.entities.asking import Asked
from harness.audits.entities.engineering import Chain, begins_as, importances, prompt_at
from harness.audits.entities.measured import Measured, asked_prompts, every_name, halves_of
from harness.audits.entities.ranking import Placements, delong_interval, placements
from harness.audits.entities.report import entities_findings
from harness.core.arrays import Bools, Floats
from harness.core.attack import Field, Params
from harness.core.audit import Audit, AuditContext, AuditInputs, RowsOf
from harness.core.errors import HarnessError
from harness.core.findings import Findings
from harness.core.rows import Kind, table

_PROMPTS_A_BATCH = 4
_TYPICAL_LENGTH = 10
_ATTENTION_WEIGHT = 2.0


class Match(StrEnum):
    """How the name's tokens are found in a sentence."""

    OFFSETS = "offsets"
    SOURCE = "source"


class EntitiesParams(Params):
    """What may be chosen about the measurement itself."""

    match: Match = Field(
        Match.OFFSETS,
        description="A name's tokens are those that cover its characters; source: those anywhere in the sentence that "
        "the name alone has too.",
    )
    labels: tuple[str, ...] = Field(
        (), description="The labels that stand for a person, as the model calls them; by default PER and PERSON."
    )
    attention_prompts: int = Field(
        3, ge=1, le=200, description="How many of the best and of the worst prompts are looked at for attention."
    )


class EntitiesAudit(Audit[EntitiesParams]):
    """Does a token classifier give names that it was trained on a higher confidence than other names?"""

    name = "entities"
    title = "Names that a model was trained on"
    reference = "Xia et al. 2024, Exploring prompts to elicit memorization in masked language model-based NER"
    tables = (
        table("confidence", model=Kind.INTEGER, prompt=Kind.INTEGER, values=Kind.REALS),
        table(
            "engineered",
            model=Kind.INTEGER,
            chain=Kind.INTEGER,
            step=Kind.INTEGER,
            text=Kind.TEXT,
            values=Kind.REALS,
        ),
        table(
            "word",
            model=Kind.INTEGER,
            chain=Kind.INTEGER,
            step=Kind.INTEGER,
            word=Kind.INTEGER,
            text=Kind.TEXT,
            added=Kind.REAL,
            share=Kind.REAL,
        ),
        table("attention", model=Kind.INTEGER, prompt=Kind.INTEGER, values=Kind.REALS),
        table(
            "attended_word",
            model=Kind.INTEGER,
            prompt=Kind.INTEGER,
            word=Kind.INTEGER,
            text=Kind.TEXT,
            inside=Kind.REAL,
            outside=Kind.REAL,
        ),
    )

    def run(self, context: AuditContext) -> None:
        if not context.models:
            raise HarnessError("the entities audit asks a model on this machine: name one by --target.")
        names = every_name(context.inputs)
        faults: list[HarnessError] = []
        for model in range(len(context.models)):
            _announce(context, model, self.params.attention_prompts)
        for model, order in enumerate(context.models):
            try:
                asked = Asked(order, names, self.params.labels, by_set=self.params.match is Match.SOURCE)
            except HarnessError as error:
                # One model that cannot be asked leaves the others to be measured.
                faults.append(error)
                _call_off(context, model, is_measured=False)
                if len(context.models) > 1:
                    context.warn(f"Model {model + 1} is left out: {error}")
                continue
            _measure_prompts(context, asked, model)
            of = Measured(context.inputs, context.rows("confidence"), model)
            if not of.is_complete:
                return
            if not of.has_pairs:
                context.warn(f"Model {model + 1}: too few names or prompts are left to compare anything.")
                _call_off(context, model, is_measured=True)
                continue
            for chain in Chain:
                _engineer(context, asked, of, model, chain)
            _look_at_attention(context, asked, of, model, self.params.attention_prompts)
        if len(faults) == len(context.models):
            raise faults[0]

    def findings(self, inputs: AuditInputs, rows: RowsOf, models: tuple[str, ...]) -> Findings:
        return entities_findings(inputs, rows, models)


def _announce(context: AuditContext, model: int, attended: int) -> None:
    """What is to come for one model; how long its best and worst prompts are shows only then."""
    context.announce(_prompts_stage(model), len(asked_prompts(context.inputs)))
    for chain in Chain:
        context.announce(_chain_stage(chain, model), _TYPICAL_LENGTH, weight=_chain_weight(_TYPICAL_LENGTH))
    context.announce(_attention_stage(model), 2 * attended, weight=_ATTENTION_WEIGHT)


def _call_off(context: AuditContext, model: int, *, is_measured: bool) -> None:
    """What was announced for a model and will not come, so that progress does not wait for it."""
    later = [*(_chain_stage(chain, model) for chain in Chain), _attention_stage(model)]
    for stage in later if is_measured else [_prompts_stage(model), *later]:
        context.announce(stage, 0)


def _prompts_stage(model: int) -> str:
    return f"confidence {model + 1}"


def _attention_stage(model: int) -> str:
    return f"attention {model + 1}"


def _chain_stage(chain: Chain, model: int) -> str:
    return f"{chain.name.lower()} prompt {model + 1}"


def _chain_weight(length: int) -> float:
    """Work of a step, where 1 is one prompt asked of all names: one such, and the dev half without each word."""
    return 1 + length / 4


def _measure_prompts(context: AuditContext, asked: Asked, model: int) -> None:
    """A row of confidences for every prompt."""
    prompts = asked_prompts(context.inputs)
    so_far = _SoFar(context, asked, model)
    for batch in context.batches(_prompts_stage(model), len(prompts), size=_PROMPTS_A_BATCH):
        if batch.items[0] == 0 and not asked.has_tokens.all():
            lost = int((~asked.has_tokens).sum())
            context.warn(
                f"Model {model + 1}: {lost} of {len(asked.names)} names have no token in its vocabulary: left out."
            )
        values = np.array([asked.confidences(prompts[prompt]) for prompt in batch.items])
        context.emit("confidence", model=np.full(len(values), model), prompt=batch.items, values=values)
        for prompt, confidences in zip(batch.items.tolist(), values, strict=True):
            so_far.add(prompt, confidences)
        so_far.tell()


def _engineer(context: AuditContext, asked: Asked, of: Measured, model: int, chain: Chain) -> None:
    """One word fewer with each batch: all names in what is left, and the dev half's names without each of its words."""
    first = begins_as(of, chain)
    dev = np.concatenate(of.dev)
    stage, weight = _chain_stage(chain, model), _chain_weight(first.length)
    for batch in context.batches(stage, first.length, size=1, weight=weight):
        step = int(batch.items[0])
        prompt = prompt_at(of, context.rows("word"), model, chain, step)
        whole = asked.confidences(prompt) if step else of.confidences[of.best if chain is Chain.BEST else of.worst]
        context.emit(
            "engineered", model=[model], chain=[int(chain)], step=[step], text=[prompt.text], values=whole[None, :]
        )
        if not prompt.droppable:
            continue
        without = np.array([_mean(asked.confidences(prompt.without(word), dev)[dev]) for word in prompt.droppable])
        of_dev = _mean(whole[dev])
        context.emit(
            "word",
            model=np.full(len(without), model),
            chain=np.full(len(without), int(chain)),
            step=np.full(len(without), step),
            word=prompt.droppable,
            text=[prompt.words[word].text for word in prompt.droppable],
            added=of_dev - without,
            share=importances(of_dev, without),
        )


def _look_at_attention(context: AuditContext, asked: Asked, of: Measured, model: int, each: int) -> None:
    """What the best and the worst prompts' words attend to."""
    order = of.counted[np.argsort(-of.dev_m_mem, kind="stable")]
    chosen = list(dict.fromkeys([*order[:each].tolist(), *order[::-1][:each].tolist()]))
    halves = halves_of(context.inputs, of.name_counts)
    inside = np.concatenate([half.inside for half in halves])
    outside = np.concatenate([half.outside for half in halves])
    for batch in context.batches(_attention_stage(model), len(chosen), size=1, weight=_ATTENTION_WEIGHT):
        number = chosen[int(batch.items[0])]
        prompt = of.asked[number]
        found = asked.attention(prompt)
        context.emit("attention", model=[model], prompt=[number], values=found.of_name[None, :])
        context.emit(
            "attended_word",
            model=np.full(prompt.length, model),
            prompt=np.full(prompt.length, number),
            word=np.arange(prompt.length),
            text=[word.text for word in prompt.words],
            inside=[_mean(of_word) for of_word in found.of_word[:, inside]],
            outside=[_mean(of_word) for of_word in found.of_word[:, outside]],
        )


class _SoFar:
    """What the dev half's pairs come to as prompts are measured: mean, best and worst M-MEM, with the mean's interval.

    Of names that have tokens, in each prompt those that have a confidence in it; which names and prompts count in the
    end shows when all are measured.
    """

    def __init__(self, context: AuditContext, asked: Asked, model: int) -> None:
        self._context = context
        self._half, _ = halves_of(context.inputs, asked.has_tokens)
        self._given = len(context.inputs.texts["prompts"])
        self._of = f"model {model + 1}: " if len(context.models) > 1 else ""
        self._m_mem: list[float] = []
        self._inside, self._outside = _Placed(len(self._half.inside)), _Placed(len(self._half.outside))
        rows = context.rows("confidence")
        for row in np.flatnonzero(np.asarray(rows["model"]) == model):
            self.add(int(rows["prompt"][row]), rows["values"][row])

    def add(self, prompt: int, confidences: Floats) -> None:
        """One more prompt, with the confidence of each name."""
        inside, outside = self._half.sides(confidences)
        in_inside, in_outside = np.isfinite(inside), np.isfinite(outside)
        if prompt >= self._given or min(in_inside.sum(), in_outside.sum()) < 2:
            return
        placed = placements(inside[in_inside], outside[in_outside])
        self._m_mem.append(float(placed.of_inside.mean()))
        self._inside.add(in_inside, placed.of_inside)
        self._outside.add(in_outside, placed.of_outside)

    def tell(self) -> None:
        """Say how it stands."""
        if not self._m_mem:
            return
        prompts = len(self._m_mem)
        low, high = delong_interval(Placements(self._inside.means(), self._outside.means()))
        mean = float(np.mean(self._m_mem))
        self._context.figure(f"{self._of}mean M-MEM", mean, low=min(low, mean), high=max(high, mean), of=prompts)
        self._context.figure(f"{self._of}best prompt's M-MEM", max(self._m_mem), of=prompts)
        self._context.figure(f"{self._of}worst prompt's M-MEM", min(self._m_mem), of=prompts)


class _Placed:
    """Sums of one list's placements over the prompts so far, name by name."""

    def __init__(self, names: int) -> None:
        self._sums, self._counts = np.zeros(names), np.zeros(names)

    def add(self, is_placed: Bools, placed: Floats) -> None:
        """One more prompt. is_placed: [names]; placed: of these names, in order."""
        self._sums[is_placed] += placed
        self._counts[is_placed] += 1

    def means(self) -> Floats:
        """The mean placement of each name that was ever placed."""
        ever = self._counts > 0
        return np.asarray(self._sums[ever] / self._counts[ever])


def _mean(values: Floats) -> float:
    """The mean of those that are numbers; NaN where none is."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else float("nan")
