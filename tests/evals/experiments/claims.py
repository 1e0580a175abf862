"""Invented examples as a file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.evals.experiments.tiny_encoder import WORDS


def write_examples(path: Path, count: int, prefix: str) -> Path:
    """Six sentences each; the evidence is the sentence that has the query's word."""
    lines = []
    for number in range(count):
        word = WORDS[number % 5]
        others = [other for other in WORDS[:5] if other != word]
        sentences = [f"the {other} was {WORDS[5 + number % 4]}." for other in [*others, "group"]]
        place = number % 6
        sentences.insert(place, f"the {word} of the group was higher {prefix}.")
        lines.append(
            {"id": f"{prefix}{number}", "query": f"the {word}?", "sentences": sentences, "evidence": [place]}
        )
        lines[-1]["document_id"] = f"{prefix}{number}"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    return path
