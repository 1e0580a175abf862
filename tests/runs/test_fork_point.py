"""Where a fork begins, from what the user named and what the trace has."""

from __future__ import annotations

import pytest

from runs.fork.forks import ForkPoint, find_fork_point
from runs.record.manifest import RunError

NODES = ("__start__", "label_evidence", "reflect_on_labels", "widen_evidence", "generate_answer")
TRACE = [
    {"step": 0, "node": "label_evidence"},
    {"step": 1, "node": "reflect_on_labels"},
    {"step": 2, "node": "reflect_on_labels"},
    {"step": 3, "node": "generate_answer"},
    {"step": 4, "node": "generate_answer"},
]


def test_a_node_alone_means_its_first_execution_and_those_beside_it() -> None:
    point = find_fork_point(TRACE, NODES, "reflect_on_labels", None)
    assert point == ForkPoint("reflect_on_labels", 1, alone=False)


def test_a_step_means_this_execution_alone() -> None:
    assert find_fork_point(TRACE, NODES, None, 4) == ForkPoint("generate_answer", 4, alone=True)


@pytest.mark.parametrize(
    ("node", "step", "words"),
    [
        ("widen_evidence", None, "widen_evidence did not run on this case; what ran"),
        ("generate_anser", None, "did you mean 'generate_answer'?"),
        ("reflect_on_labels", 3, "step 3 is generate_answer; reflect_on_labels ran at 1, 2"),
        (None, 9, "step 9 not found"),
        (None, None, "name the node that runs again"),
    ],
)
def test_what_did_not_run_is_refused_with_what_did(node: str | None, step: int | None, words: str) -> None:
    with pytest.raises(RunError, match=r"what ran, with its steps: label_evidence 0|ran at") as caught:
        find_fork_point(TRACE, NODES, node, step)
    assert words in str(caught.value)
    with pytest.raises(RunError, match="no node ran on this case"):
        find_fork_point([], NODES, node, step)
