"""Predictions that can be submitted, and what is not one."""

from __future__ import annotations

from hypothesis import strategies as st

from cases.submissions.archehr import CitedSentence, Prediction, Task
from tests.cases.strategies import some_text, texts

ids = st.from_regex(r"[a-z]?[0-9]{1,3}", fullmatch=True)
some_ids = st.lists(ids, unique=True, max_size=4).map(tuple)
cited_sentences = st.builds(CitedSentence, texts, some_ids)

cited_answers = st.tuples(
    st.lists(cited_sentences, max_size=3),
    st.builds(CitedSentence, some_text, st.lists(ids, unique=True, min_size=1, max_size=4).map(tuple)),
).map(lambda parts: (*parts[0], parts[1]))

_PARTS = {
    "2025": ("cited_answer", cited_answers),
    "2026-1": ("question", some_text),
    "2026-2": ("evidence", some_ids),
    "2026-3": ("answer", some_text),
    "2026-4": ("links", st.lists(st.tuples(ids, ids), unique=True, max_size=6).map(tuple)),
}


def predictions(task: Task) -> st.SearchStrategy[list[Prediction]]:
    """Lists of predictions on a task, each of another case."""
    part, values = _PARTS[task]
    one = st.builds(lambda case_id, value: Prediction(case_id, **{part: value}), some_text, values)
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda prediction: prediction.case_id)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.sampled_from(["7", "1", " 1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["case_id", "prediction", "answer", "answer_id", "evidence_id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
