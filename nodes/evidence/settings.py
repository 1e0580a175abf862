"""Recipe settings for evidence: voters, number of votes, and review by a person (TAMU 2026, 4.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, model_validator

from nodes.core.recipe import RecipeSection
from nodes.core.records import ReplyFormName
from nodes.evidence.rule import EvidenceRule
from ranking.cutoffs import Cutoff, Deviations
from ranking.rankers.load import gives_logits

MAX_VOTES = 101

POINTWISE: ReplyFormName = "pointwise"
AUTO: ReplyFormName = "auto"
_UNCALIBRATED = Deviations(above=0.5)
"""Small models seldom say Yes, yet rank well, so probabilities are compared within the note."""
_RANGE = re.compile(r"(\d{1,9})(?:\.\.(\d{1,9}))?", re.ASCII)


def read_votes(value: object) -> int | str:
    """A number, or a range as text; a range of one number is that number.

    Raises:
        ValueError: It is neither, or out of bounds.
    """
    first, most = vote_bounds(value)
    return most if first == most else f"{first}..{most}"


def vote_bounds(value: object) -> tuple[int, int]:
    """The votes asked for first, and at most.

    Raises:
        ValueError: It is neither a number nor a range, or out of bounds.
    """
    match = None
    if isinstance(value, int | str) and not isinstance(value, bool):
        match = _RANGE.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"{value!r} is neither a number of votes, such as 5, nor a range, such as 3..9")
    first = int(match[1])
    most = int(match[2] or first)
    if first > most:
        raise ValueError(f"the range {first}..{most} runs backwards; write {most}..{first}")
    if not 1 <= first <= most <= MAX_VOTES:
        raise ValueError(f"votes go from 1 to {MAX_VOTES}, not {value}")
    return first, most


class VoteSettings(RecipeSection):
    """Votes of a language model on the sentences of a note.

    Attributes:
        votes: R, samples of the labelling prompt.
        threshold: T of equation 22: essential iff at least T of the votes agree, including a ranker's.
        minimum_votes: Fewest usable votes of the model that a case can be decided on; None is a majority of
            those asked.
        reply: `labels` asks for the label of every sentence, as the paper does; `ids` for the ids of the
            essential sentences alone, which takes a fraction of the tokens; `pointwise` for each sentence by
            itself, which gives every sentence a probability; `auto` for `pointwise` if the recipe has a rule
            that was calibrated for the model, else for `labels`.
        confidence: Whether to ask for the log-probabilities of replies, and show how sure labels are. Replies
            get several times larger. Only replies in `labels` show it.
    """

    options: ClassVar[Mapping[str, str]] = {"votes": "votes", "threshold": "threshold"}

    votes: Annotated[int | str, PlainValidator(read_votes)] = 5
    threshold: int = Field(3, ge=1)
    minimum_votes: int | None = Field(None, ge=1)
    reply: ReplyFormName = "labels"
    temperature: float = Field(0.7, ge=0, le=2)
    confidence: bool = False

    @model_validator(mode="after")
    def _threshold_is_reachable(self) -> VoteSettings:
        if not self.asks_model:
            return self
        most, every = self.most_votes, self.all_votes
        if self.threshold > every:
            raise ValueError(f"threshold {self.threshold} is above the number of votes {every}")
        if self.minimum_votes is not None and self.minimum_votes > most:
            raise ValueError(f"minimum_votes {self.minimum_votes} is above the number of votes {most}")
        return self

    @property
    def asks_model(self) -> bool:
        return True

    @property
    def first_votes(self) -> int:
        return vote_bounds(self.votes)[0] if self.asks_model else 0

    @property
    def most_votes(self) -> int:
        return vote_bounds(self.votes)[1] if self.asks_model else 0

    @property
    def reflects(self) -> bool:
        """Whether the model reviews its own votes."""
        return False

    @property
    def ranker_weight(self) -> int:
        return 0

    @property
    def all_votes(self) -> int:
        """R: votes that there can be on a case, those of a ranker counted."""
        return self.most_votes + self.ranker_weight

    @property
    def vote_threshold(self) -> int:
        """T; 1 if a ranker is the only voter."""
        return self.threshold if self.asks_model else 1

    @property
    def adaptive(self) -> bool:
        return self.first_votes < self.most_votes

    def needed_votes(self, asked: int) -> int:
        """Fewest usable ones among the model's votes asked so far; below that a case has failed.

        A ranker never replaces a failed model. The recipe's `minimum_votes` can still be reached by the
        remaining votes.
        """
        if self.minimum_votes is None:
            return asked // 2 + 1
        return max(1, self.minimum_votes - (self.most_votes - asked))


class FixedVoteSettings(VoteSettings):
    """The same number of votes on every case, for graphs that do not count in between."""

    @model_validator(mode="after")
    def _one_number(self) -> FixedVoteSettings:
        if self.adaptive:
            raise ValueError(
                f"votes is {self.votes}, but this graph never asks for further votes; give a number"
            )
        return self

    @model_validator(mode="after")
    def _whole_replies(self) -> FixedVoteSettings:
        if self.reply == POINTWISE:
            raise ValueError("reply is 'pointwise', which this graph does not ask for; use 'labels' or 'ids'")
        return self


POINTWISE_VALUES: Mapping[str, Any] = {
    "votes": 1,
    "demonstrations": 0,
    "reflection": False,
    "temperature": 0.0,
}
"""Values fixed by the reply `pointwise`."""


class EvidenceSettings(VoteSettings):
    """Voters on evidence, demonstrations, votes and reflection.

    `evidence: ranker` is short for `evidence: {voters: ranker}`.

    Attributes:
        voters: `llm` labels by a language model's votes, `ranker` by a ranker's selection alone, which asks
            no model and reads nothing of this section but `ranker` and `cutoff`; `both` counts the ranker's
            selection among the model's votes.
        ranker: `logistic`, `support`, `bm25`, `similarity`, `similarity:FOLDER` of a sentence encoder, or the
            folder of a trained ranker.
        ranker_votes: Weight of the ranker's selection in votes, in addition to the model's.
        cutoff: The rule from scores to a selection; None is the ranker's own.
        rule: A calibrated rule that decides in place of the threshold, from the votes and the ranker's scores
            together; one selection for every evidence setting. None counts votes.
        demonstrations: K of section 4.1.3.
        demonstrations_from: Ids of the only cases of the pool that may be shown; none lets all in.
        intent_aware: Choose the demonstrations among cases of the same intent; labelling then waits for it.
        order: `canonical` sorts demonstrations by id, so that cases share prompt prefixes;
            `similar_last` puts the nearest one next to the case.
        votes: R, samples of the labelling prompt. A range such as `3..9` asks for the first number, and for
            more up to the second only while they could still change a label.
        reflection: Whether each vote is reviewed by the self-reflection prompt.
        reflection_temperature: Sampling temperature of the reflections.
        model_cutoff: With the reply `pointwise`, the rule from the model's log-odds to its vote; None takes
            every sentence half a standard deviation above the mean of its note.

    The reply `pointwise` does not sample and cannot be reflected on: one vote, temperature 0, no reflection
    and no demonstrations, and T is a majority of the votes, including a ranker's.
    """

    word_for: ClassVar[str | None] = "voters"
    options: ClassVar[Mapping[str, str]] = {**VoteSettings.options, "evidence": "voters", "ranker": "ranker"}

    voters: Literal["llm", "ranker", "both"] = "llm"
    ranker: str = "logistic"
    ranker_votes: int = Field(1, ge=1, le=MAX_VOTES)
    cutoff: Cutoff | None = None
    rule: EvidenceRule | None = None
    demonstrations: int = Field(5, ge=0, le=50)
    demonstrations_from: tuple[str, ...] = ()
    intent_aware: bool = False
    order: Literal["canonical", "similar_last"] = "canonical"
    reflection: bool = True
    reflection_temperature: float = Field(0.7, ge=0, le=2)
    model_cutoff: Cutoff | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill_in_pointwise(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or values.get("reply") != POINTWISE:
            return values
        fields = cls.model_fields
        extra = values.get("ranker_votes", fields["ranker_votes"].default)
        every = 1 + (extra if values.get("voters") == "both" and isinstance(extra, int) else 0)
        return {**POINTWISE_VALUES, "threshold": every // 2 + 1, **values}

    @model_validator(mode="after")
    def _pointwise_draws_nothing(self) -> EvidenceSettings:
        if self.model_cutoff is not None and not self.pointwise:
            raise ValueError("model_cutoff is a rule for the reply 'pointwise'")
        wrong = [name for name, value in POINTWISE_VALUES.items() if getattr(self, name) != value]
        if self.pointwise and wrong:
            settings = ", ".join(f"{name} to {str(POINTWISE_VALUES[name]).lower()}" for name in wrong)
            raise ValueError(f"reply is 'pointwise', which asks once for each sentence: set {settings}")
        return self

    @model_validator(mode="after")
    def _probabilities_where_a_rule_needs_them(self) -> EvidenceSettings:
        if self.cutoff is not None and self.cutoff.rule == "threshold" and not gives_logits(self.ranker):
            name, _, _ = self.ranker.partition(":")
            raise ValueError(
                f"cutoff.rule is 'threshold', but scores of {name} are not probabilities; use 'top_k', 'gap',"
                " 'autocut', 'elbow' or 'surprise'"
            )
        return self

    @model_validator(mode="after")
    def _rule_reads_what_there_is(self) -> EvidenceSettings:
        if self.rule is None:
            return self
        weight = self.rule.ranker_weight
        if (self.rule.reads_model and not self.asks_model) or (
            self.rule.reads_ranker and not self.asks_ranker
        ):
            raise ValueError(f"rule.ranker_weight is {weight:g}, but voters is {self.voters!r}")
        if self.adaptive:
            raise ValueError(f"rule is set, but votes is {self.votes}; a rule needs a fixed number of votes")
        if self.rule.scale == "none" and self.rule.reads_ranker and not gives_logits(self.ranker):
            name, _, _ = self.ranker.partition(":")
            raise ValueError(f"rule.scale is 'none', but scores of {name} are not log-odds; use 'case'")
        return self

    @property
    def asks_model(self) -> bool:
        return self.voters != "ranker"

    @property
    def reflects(self) -> bool:
        """Whether votes are reviewed by the self-reflection prompt."""
        return self.reflection

    @property
    def pointwise(self) -> bool:
        return self.asks_model and self.reply == POINTWISE

    @property
    def unused_prompts(self) -> frozenset[str]:
        return frozenset({"label_evidence" if self.pointwise else "label_sentence"})

    @property
    def model_rule(self) -> Cutoff:
        return self.model_cutoff or _UNCALIBRATED

    @property
    def asks_ranker(self) -> bool:
        return self.voters != "llm"

    @property
    def ranker_weight(self) -> int:
        if not self.asks_ranker:
            return 0
        return self.ranker_votes if self.asks_model else 1

    def needs(self, option: str) -> str | None:
        return "--evidence ranker, or both" if option == "ranker" and not self.asks_ranker else None


class ReviewSettings(RecipeSection):
    """When a case waits for a person.

    Attributes:
        disagreement: A case waits where its usable votes differ on more than this share of its sentences;
            None never asks. A sole ranker has one vote, which never disagrees.
        confidence: A case waits where its confidence by `evidence.rule` is below this; None never asks.
        unsupported: A case waits if its answer is flagged as unsupported.
    """

    disagreement: float | None = Field(None, ge=0, lt=1)
    confidence: float | None = Field(None, ge=0, le=1)
    unsupported: bool = False

    @property
    def asks(self) -> bool:
        return self.disagreement is not None or self.confidence is not None or self.unsupported
