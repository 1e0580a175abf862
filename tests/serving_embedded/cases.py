"""An invented labelling task, and short ways to ask the engine."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from serving.embedded.engine import Engine
from serving.embedded.request import Reply, Request

needs_integers = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU needs no weights in integers")

MODEL = "smollm2-135m"
LABELS = ("essential", "supplementary", "not-relevant")
IDS = tuple(str(number) for number in range(1, 13))
PROMPT = "Label each sentence as essential, supplementary or not-relevant.\n" + "\n".join(
    f"{number}. The dose of drug {number} was raised because the pain came back." for number in IDS
)


def label_map(ids: Sequence[str] = IDS) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {number: {"type": "string", "enum": list(LABELS)} for number in ids},
        "required": list(ids),
        "additionalProperties": False,
    }


def ask(engine: Engine, *requests: Request) -> list[Reply]:
    outcomes = engine.generate(requests)
    replies = [outcome for outcome in outcomes if isinstance(outcome, Reply)]
    assert len(replies) == len(requests), outcomes
    return replies
