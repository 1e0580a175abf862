"""A verified text as JSON and as a page: its lines beside its source, nothing fetched."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.pages.page import render_page
from ranking.verify import Evidence, Verification

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Report:
    """A verification with where it came from.

    Attributes:
        note: Where the lines came from.
        source: Where the sentences came from.
        ids: Of the sentences.
        ranker: Identity of the ranker.
        source_encoded: Whether the source was encoded now; False where vectors were kept from before, None
            where the ranker needs none.
    """

    note: str
    source: str
    ids: tuple[str, ...]
    ranker: str
    verification: Verification
    source_encoded: bool | None

    def as_json(self) -> dict[str, Any]:
        """Keys that stay."""
        found = self.verification
        return {
            "note": self.note,
            "source": self.source,
            "source_sha256": sentences_sha256(found.sentences),
            "source_sentences": len(found.sentences),
            "ranker": self.ranker,
            "threshold": found.threshold,
            "supported": found.count("supported"),
            "weak": found.count("weak"),
            "unsupported": found.count("unsupported"),
            "cut_sentences": [self.ids[place] for place in found.cut_sentences],
            "cut_lines": [number for number, line in enumerate(found.lines, start=1) if line.cut],
            "source_encoded": self.source_encoded,
            "lines": [
                {
                    "text": line.text,
                    "support": line.support,
                    "supported": line.support == "supported",
                    "evidence": [self._evidence(evidence) for evidence in line.evidence],
                }
                for line in found.lines
            ],
        }

    def _evidence(self, evidence: Evidence) -> dict[str, Any]:
        value = evidence.probability
        return {
            "sentence": self.ids[evidence.sentence],
            "text": self.verification.sentences[evidence.sentence],
            "score": round(evidence.score, _DIGITS),
            "probability": None if value is None else round(value, _DIGITS),
        }


def sentences_sha256(sentences: Sequence[str]) -> str:
    """Digest of a source as it was split."""
    return hashlib.sha256(json.dumps(list(sentences)).encode()).hexdigest()


def render(report: Report, back: str | None = None) -> str:
    """The page. It holds both texts whole, so it is as confidential as they are.

    Args:
        report: What was found.
        back: Where a link at the top leads; None gives none.
    """
    cited: dict[int, list[int]] = {}
    for number, line in enumerate(report.verification.lines, start=1):
        for evidence in line.evidence:
            cited.setdefault(evidence.sentence, []).append(number)
    return render_page(
        "verification.html", report=report, verification=report.verification, cited=cited, back=back
    )
