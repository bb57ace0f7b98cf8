"""A static soft prompt, trained on the training examples to make the target complete memorized text.

The prompt learns only how to ask: the target's weights do not change. Decoding is greedy. Before the training every
example gets a guess without a prompt, ranked below all others, so that a run that ends early has guesses to submit.
"""

from collections.abc import Iterator

from harness import (
    Attack,
    Context,
    Field,
    Guesses,
    Params,
    Policy,
    PrefixView,
    PromptPlan,
    Ranker,
    Schedule,
    announce_training,
    trained_prompt,
)

BELOW_ALL_OTHERS = 1e6


class SoftPromptParams(Params):
    tokens: int = Field(20, ge=1, le=2048, description="Length of the soft prompt.")
    learning_rate: float = Field(
        5e-4, gt=0, le=10, description="Constant learning rate of AdamW, without weight decay."
    )
    epochs: int = Field(15, ge=1, le=1000, description="Passes over the training examples.")
    batch: int = Field(128, ge=1, le=4096, description="Training examples per step.")
    examples: int = Field(0, ge=0, description="Training examples used, drawn at random; 0 for all.")
    ranker: Ranker = "mean_loss"


class SoftPrompt(Attack[SoftPromptParams]):
    name = "soft_prompt"
    reference = (
        "Ozdayi et al., Controlling the Extraction of Memorized Data from Large Language Models via Prompt-Tuning, "
        "ACL 2023"
    )

    def run(self, context: Context) -> Iterator[Guesses]:
        params = self.params
        train = context.train.drawn(params.examples, context.seed)
        plan = PromptPlan(params.tokens, Schedule(params.learning_rate), 0.0, params.epochs, params.batch)
        context.announce("without a prompt")
        announce_training(context, train, plan)
        context.announce("guess")
        yield from self.guess_greedily(context, PrefixView(), stage="without a prompt", lowered=BELOW_ALL_OTHERS)
        prompted = trained_prompt(context, train, plan, loss=lambda losses: losses.mean(dim=1))
        yield from self.guess_greedily(context, prompted, stage="guess")

    def guess_greedily(
        self, context: Context, view: PrefixView, *, stage: str, lowered: float = 0.0
    ) -> Iterator[Guesses]:
        """Yield the greedy suffix of each example in a view, ranked by its score under the target without a prompt."""
        for batch in context.batches(stage=stage, size=128):
            suffixes = context.target.viewed([view]).sample(batch.prefixes, Policy(top_k=1)).suffixes
            score = context.rank(batch.prefixes, suffixes, self.params.ranker)
            yield Guesses(batch.ids, suffixes, score - lowered)
