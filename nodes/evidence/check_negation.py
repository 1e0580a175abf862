"""Whether a sentence that votes call essential negates a finding.

"No signs of bleeding" and "signs of bleeding" answer a question in opposite ways, and small models confuse
them. The cues are those of NegEx (Chapman et al. 2001) that clinical notes use most, without its scopes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NotRequired, TypedDict

from langgraph.runtime import Runtime

from cases.texts import plural
from nodes.core.context import Context
from nodes.core.facts import Fact
from nodes.core.node import NodeSpec
from nodes.core.recipe import RecipeSection
from nodes.core.records import Decision, Vote, decision

_CUE = re.compile(
    r"\b(?:no (?:evidence|signs?) of|(?:was|were|is) ruled out|negative for|denie[sd]|denying|absence of"
    r"|free of|without|never|not|no)\b",
    re.IGNORECASE,
)


class NegationSettings(RecipeSection):
    """Negated findings among the evidence.

    Attributes:
        check: Whether cases are flagged in which a sentence that votes call essential negates a finding.
    """

    check: bool = False


class CheckNegationInput(TypedDict):
    case_id: str
    votes: NotRequired[list[Vote]]
    reflected_votes: NotRequired[list[Vote]]


class CheckNegationUpdate(TypedDict):
    decisions: list[Decision]


def negation_cues(texts: Mapping[str, str]) -> dict[str, str]:
    """The first cue of each text that has one, by its id, in lower case."""
    found = {id_: _CUE.search(text) for id_, text in texts.items()}
    return {id_: match[0].lower() for id_, match in found.items() if match is not None}


async def check_negation(state: CheckNegationInput, runtime: Runtime[Context]) -> CheckNegationUpdate:
    """Look for cues in the sentences that any vote calls essential; labels stay as they are."""
    case = runtime.context.cases[state["case_id"]]
    votes = state.get("reflected_votes") or state.get("votes", [])
    named = {id_ for vote in votes for id_ in vote["essential"]}
    cues = negation_cues({one.id: one.text for one in case.sentences if one.id in named})
    return {
        "decisions": decision(
            "check_negation",
            f"{len(cues)} of {plural(len(named), 'essential sentence')} negate a finding",
            {"negations": cues},
            flags=["negated_evidence"] if cues else [],
        )
    }


CHECK_NEGATION = NodeSpec(
    run=check_negation,
    sections=(NegationSettings,),
    # Cues are words of the list above, not of the note.
    facts={"negations": Fact(rows=lambda cues, _: [(f"sentence {id_}", cue) for id_, cue in cues.items()])},
    flags={"negated_evidence": "a sentence that votes call essential says that a finding is absent"},
    is_off=lambda recipe: not recipe.section(NegationSettings).check,
)
