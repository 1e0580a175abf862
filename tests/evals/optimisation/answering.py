"""Invented cases, and scripts of models that one instruction makes better."""

from __future__ import annotations

import json
from pathlib import Path

RECIPE = """\
system: tamu
embedding: lexical:256
evidence: {demonstrations: 0, votes: 1, threshold: 1, temperature: 0.0, reflection: false}
answer: {demonstrations: 0}
"""

SCRIPT = '''\
"""A model that labels well where its instruction says so."""

import json
import os
import re
import signal
from pathlib import Path

WORD = "LEAK"


def well(call):
    """Well with the right instruction, else everything is essential."""
    if call.format == "instruction":
        return proposed(call)
    return labelled(call, WORD in call.prompt[0][1])


def alike(call):
    """The same whatever the instruction says."""
    return proposed(call) if call.format == "instruction" else labelled(call, True)


def lucky(call):
    """Better with the right instruction where the search looks, and worse elsewhere."""
    if call.format == "instruction":
        return proposed(call)
    seen = {json.loads(line)["case_id"] for line in Path("out/cases/search.jsonl").read_text().splitlines()}
    return labelled(call, (WORD in call.prompt[0][1]) == (call.case_id in seen))


def dying(call):
    """As `well`, until as many calls are answered as a file says."""
    path = Path("left.txt")
    left = int(path.read_text()) if path.exists() else -1
    if left == 0:
        path.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if left > 0:
        path.write_text(str(left - 1))
    return well(call)


def failing(call):
    raise TimeoutError("no")


def proposed(call):
    """The second variant is the right one; it costs $5 and names ${no} variable."""
    number = int(call.case_id.rsplit("-", 1)[1])
    if number == 2:
        return f"Here is the instruction:\\n\\n\\"Only a sentence with the {WORD} of $5 and ${{no}} other.\\""
    return f"Look at the note for the time number {number} and decide."


def labelled(call, well):
    if call.schema_ is None:
        return of_sentence(call, well)
    found = re.findall(r"^(\\S+): (.*)$", call.prompt[-1][1].partition("Note:")[2], re.MULTILINE)
    chosen = [id_ for id_, text in found if not well or "leak" in text]
    if "essential" in call.schema_["properties"]:
        return json.dumps({"essential": chosen})
    return json.dumps({id_: "essential" if id_ in chosen else "not-essential" for id_, _ in found})


def of_sentence(call, well):
    """Asked of each sentence by itself."""
    note, asked = call.prompt[1][1], call.prompt[-1][1]
    number = re.search(r"sentence (\\S+) needed", asked)[1]
    text = re.search(rf"^{number}: (.*)$", note, re.MULTILINE)[1]
    return "Yes" if not well or "leak" in text else "No"
'''


def write_inputs(folder: Path, cases: int = 16) -> None:
    """A recipe, labelled cases and the script."""
    (folder / "small.yaml").write_text(RECIPE)
    (folder / "script.py").write_text(SCRIPT)
    lines = []
    for number in range(cases):
        leaks = number % 4
        sentences = [
            f"Sentence {place} of note {number} {'has the leak' if place == leaks else 'is stable'}."
            for place in range(5)
        ]
        labels = {
            str(place + 1): "essential" if place == leaks else "not-relevant"
            for place in range(len(sentences))
        }
        line = {
            "case_id": f"k{number}",
            "narrative": f"I still think about number {number}.",
            "question": f"Why was procedure {number} done?",
            "sentences": sentences,
            "labels": labels,
        }
        lines.append(json.dumps(line))
    (folder / "cases.jsonl").write_text("\n".join(lines) + "\n")
