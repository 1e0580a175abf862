"""The notebook of the documentation runs from top to bottom, without a model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cases.load import find_cases
from runs.record.folder import RunFolder
from tests.evigraph import program

NOTEBOOK = Path(__file__).parents[2] / "docs" / "study.ipynb"
EXECUTE = program("jupyter-execute")
VALUES = """\
import json
print(json.dumps({
    "cases": sorted(set(decisions["case"])),
    "decisions": len(decisions),
    "sentences": len(sentences),
    "agreement": agreement.to_dict(),
    "doubtful": doubtful,
    "changed": [list(one) for one in changed.index],
}))
"""


def cells() -> list[dict[str, Any]]:
    found = json.loads(NOTEBOOK.read_text())["cells"]
    assert isinstance(found, list)
    return found


def test_no_output_is_kept_and_the_first_cell_says_how_to_use_another_model() -> None:
    code = [one for one in cells() if one["cell_type"] == "code"]
    assert [one["outputs"] for one in code] == [[]] * len(code)
    assert {one["execution_count"] for one in code} == {None}
    assert "embedded:qwen2.5-coder-1.5b" in "".join(cells()[0]["source"])


@pytest.mark.slow
def test_it_runs_and_its_frames_hold_the_run(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    last = {"cell_type": "code", "id": "values", "metadata": {}, "source": VALUES}
    notebook["cells"].append(last | {"outputs": [], "execution_count": None})
    (tmp_path / "study.ipynb").write_text(json.dumps(notebook))
    places = {name: str(tmp_path / "jupyter") for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR")}
    path = f"{EXECUTE.parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [EXECUTE, "--output", tmp_path / "done.ipynb", "study.ipynb"],
        cwd=tmp_path,
        env={**os.environ, **places, "PATH": path, "TERM": "dumb"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    done = json.loads((tmp_path / "done.ipynb").read_text())["cells"]
    outputs = [output for one in done for output in one.get("outputs", ())]
    assert {output["output_type"] for output in outputs} == {"stream", "execute_result", "display_data"}
    assert [one for one in outputs if "image/png" in one.get("data", {})]
    values = json.loads("".join(done[-1]["outputs"][0]["text"]))
    first, second = (RunFolder(tmp_path / "study" / name) for name in ("first", "second"))
    cases = {case.id: case for case in find_cases([tmp_path / "study" / "cases.jsonl"])}
    assert values["cases"] == sorted(first.statuses()) == ["knee", "rash", "sodium"]
    assert values["sentences"] == sum(len(line["labels"]) for line in first.cases()) == 19
    steps = [step for id_ in cases for step in first.trace(id_) if step["node"] != "__end__"]
    assert values["decisions"] == len(steps)
    for line in first.cases():
        counts, votes = line["vote_counts"].values(), line["usable_votes"]
        mean = sum(max(count, votes - count) / votes for count in counts) / len(counts)
        assert values["agreement"][line["case_id"]] == pytest.approx(mean)
    assert values["doubtful"] == min(values["agreement"], key=values["agreement"].__getitem__)
    (gold,) = (tmp_path / "study" / "gold.jsonl").read_text().splitlines()
    assert json.loads(gold)["case_id"] == values["doubtful"]
    labels = [
        {(line["case_id"], id_): label for line in run.cases() for id_, label in line["labels"].items()}
        for run in (first, second)
    ]
    assert values["changed"] == [list(one) for one in labels[0] if labels[0][one] != labels[1][one]]
    assert (tmp_path / "study" / "first.html").read_text().count('class="case"') == 3
