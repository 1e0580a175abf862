"""Invented cases, keys and the odd texts that they are made of."""

from __future__ import annotations

from hypothesis import strategies as st

from cases.records import INTENTS, AnswerSentence, Case, Gold, Intent, Label, LabelSource, Phrase, Sentence
from cases.texts import one_line

ODD = (
    "</case>",
    "<b>",
    "]]>",
    "{braces}",
    "{}",
    "&amp;",
    "&",
    "לב תקין",
    "قلب",
    "🫀",
    "e\u0301",
    '"',
    "\\n",
    "|1|",
    "\n\n",
    "\r",
    " ",
)

characters = st.characters(exclude_categories=["Cs"])
xml_characters = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
texts = st.lists(st.sampled_from(ODD) | st.text(xml_characters, max_size=12), max_size=6).map(
    lambda parts: "".join(parts).strip()
)
lines = texts.map(one_line)
some_text = lines.filter(bool)
ids = st.integers(0, 200).map(str) | some_text
indexes = st.none() | st.integers(0, 10**6)
labels = st.dictionaries(
    ids, st.sampled_from(list[Label](["essential", "supplementary", "not-relevant"])), min_size=1, max_size=6
)
intents = st.builds(
    Intent,
    st.sampled_from(list(INTENTS)),
    st.none() | st.sampled_from(list(INTENTS)),
    st.sampled_from(["low", "moderate", "high"]),
)
sentences = st.builds(Sentence, ids, some_text, st.none() | ids, indexes)
answer_sentences = st.builds(
    AnswerSentence,
    ids,
    texts,
    st.none() | st.lists(st.from_regex(r"s?[0-9]{1,3}", fullmatch=True), unique=True, max_size=4).map(tuple),
)
gold = st.builds(
    Gold,
    st.none() | labels,
    st.none() | texts.filter(bool),
    st.none() | st.lists(answer_sentences, min_size=1, max_size=4).map(tuple),
    st.none() | intents,
)
gold |= st.builds(
    Gold, labels, st.none() | texts.filter(bool), intent=st.none() | intents, label_source=st.just("weak")
)
xml_cases = st.builds(
    Case,
    id=ids,
    narrative=texts,
    question=lines,
    sentences=st.lists(sentences, unique_by=lambda sentence: sentence.id, max_size=5).map(tuple),
    phrases=st.lists(st.builds(Phrase, ids, some_text, indexes), max_size=3).map(tuple),
    specialty=lines,
    note=texts,
)


@st.composite
def jsonl_cases(draw: st.DrawFn) -> Case:
    """A case with everything that a JSON line holds, including labels of its sentences."""
    sentence_ids = draw(st.lists(ids, unique=True, max_size=5))
    chosen = draw(st.none() | labels) if sentence_ids else None
    known = dict(zip(sentence_ids, chosen.values(), strict=False)) if chosen else None
    return Case(
        id=draw(ids),
        narrative=draw(st.text(characters).map(str.strip)),
        question=draw(lines),
        sentences=tuple(Sentence(id_, draw(some_text)) for id_ in sentence_ids),
        specialty=draw(lines),
        gold=Gold(
            labels=known,
            answer=draw(st.none() | texts.filter(bool)),
            intent=draw(st.none() | intents),
            label_source=draw(st.sampled_from(list[LabelSource](["gold", "weak"]))) if known else "gold",
        ),
    )
