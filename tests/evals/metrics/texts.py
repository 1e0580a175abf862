"""Texts that overlap, as hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

_WORDS = [
    "the",
    "pump",
    "was",
    "Pump",
    "stopped",
    "2.5",
    "mg,",
    "b.i.d.",
    "no-\n",
    "&quot;x&quot;",
    "<skipped>",
]
_ENDS = [" ", "  ", "\n", "\n\n", "\r\n", "\t", ". ", "-", "\u00a0", "\u2028"]

overlapping_texts = st.lists(
    st.tuples(st.sampled_from(_WORDS), st.sampled_from(_ENDS)).map("".join), max_size=30
).map("".join)
"""Texts of few words, so that n-grams are shared and repeated, with odd blanks and line ends."""

any_texts = overlapping_texts | st.text(max_size=60)
"""Those, and texts of any characters, the empty one among them."""
