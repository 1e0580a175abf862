"""Hostile files, and the commands that read them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import yaml

from runs.record.folder import CALLS, CASES, MANIFEST
from runs.record.sealed import seal_document, seal_line
from runs.record.trace_file import TRACE
from serving.journal.journal import Journal
from tests.evigraph import LEXICAL_RECIPE
from tools.hostile.judging import LIMIT_S, SECRET, Found, Outcome, end_of, judge_command, judge_files
from tools.hostile.spoiling import spoil_json, spoil_xml, spoil_yaml
from tools.hostile.texts import TEXTS, Draw, hostile_text, spoil_bytes
from tools.hostile.worker import ROOT, Ended, Worker

SAMPLES = ROOT / "cases" / "samples"
GOOD_ID = "good"
RECIPE = yaml.safe_load(LEXICAL_RECIPE)
KEY = [
    {
        "case_id": name,
        "clinician_answer": "It was done for a leak [1].",
        "answers": [
            {"sentence_id": str(n), "relevance": "essential" if n < 3 else "not-relevant"} for n in (1, 2, 3)
        ],
    }
    for name in ("h1", "h2")
]
SUBMISSION = [{"case_id": name, "prediction": ["1", "2"]} for name in ("h1", "h2")]
POLICY = {"name": "Notes", "hosts": ["loopback", "10.0.0.0/8", "*.example.org"], "providers": ["scripted"]}
PRICES = {"models": {"scripted:auto": {"input": 1.0, "output": 2.0}}}
READERS: tuple[tuple[str, ...], ...] = (
    ("show", "r"),
    ("show", "r", "--json"),
    ("show", "r", "--failed"),
    ("check", "r"),
    ("score", "r"),
    ("score", "r", "--json"),
    ("export", "r", "--csv", "--out", "tables"),
    ("export", "r", "--spans", "spans.jsonl", "--payloads"),
    ("export", "r", "--inspect", "--out", "tables"),
    ("view", "r", "--bundle", "pages"),
    ("view", "r", "--bundle", "pages", "--redact"),
    ("card", "r"),
    ("card", "r", "--json"),
    ("audit", "r"),
    ("audit", "r", "--json"),
    ("analyse", "r"),
    ("compare", "r", "other"),
    ("runs", "--root", "."),
    ("runs", "--root", ".", "--json"),
    ("submit", "r", "--task", "2026-2", "--out", "sent.zip"),
    ("submit", "r", "--task", "2026-3", "--out", "sent.zip"),
    ("resume", "r"),
    ("retry", "r"),
    ("retry", "r", "--impaired"),
    ("review", "r"),
    ("review", "r", "--export", "gold.jsonl"),
    ("purge", "r", "--dry-run"),
)
"""Commands that read a run."""


def record(name: str) -> dict[str, Any]:
    """A sound case."""
    return {
        "case_id": name,
        "narrative": f"I still think about {name}. Why was it done?",
        "question": f"Why was procedure {name} done?",
        "sentences": [
            {"id": str(n), "text": f"Sentence {n} of note {name} on a procedure."} for n in (1, 2, 3)
        ],
    }


def xml_cases() -> str:
    """Two sound cases in ArchEHR-QA's format."""
    cases = "".join(
        f'<case id="{name}">\n<patient_narrative>\nWhy was it done?\n</patient_narrative>\n'
        f"<clinician_question>Why was procedure {name} done?</clinician_question>\n"
        "<note_excerpt>\nSentence 1. Sentence 2.\n</note_excerpt>\n<note_excerpt_sentences>\n"
        '<sentence id="1" paragraph_id="1" start_char_index="0">Sentence 1.</sentence>\n'
        '<sentence id="2" paragraph_id="1" start_char_index="12">Sentence 2.</sentence>\n'
        "</note_excerpt_sentences>\n</case>\n"
        for name in ("h1", "h2")
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<annotations>\n{cases}</annotations>\n'


@dataclass
class Bench:
    """A folder for one input, and what has been found of it.

    Attributes:
        shared: Holds a sound run, its cases and a pool.
        base: Of this input; commands run in its folder `a/b/work`.
        trick: What is wrong with the input.
    """

    worker: Worker
    shared: Path
    base: Path
    marker: str
    draw: Draw
    found: Found
    trick: str = ""

    @property
    def work(self) -> Path:
        """The folder that commands are given in, so deep that paths out of it stay within `base`."""
        return self.base / "a" / "b" / "work"

    @property
    def secret(self) -> str:
        """The URL of a file that no command may read."""
        return (self.base / "secret.txt").as_uri()

    def write(self, name: str, spoilt: tuple[str, bytes]) -> str:
        """A hostile file."""
        self.trick = spoilt[0]
        (self.work / name).write_bytes(spoilt[1])
        return name

    def do(self, *words: str, environment: dict[str, str] | None = None) -> Ended:
        """Give a command, and judge it."""
        given = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.shared),
            "COLUMNS": "150",
            "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        }
        ended = self.worker.do(words, self.work, given, LIMIT_S)
        judge_command(ended, self.marker, self.found)
        return ended

    @property
    def recipe(self) -> str:
        """The path of a sound recipe."""
        return str(self.shared / "lexical.yaml")

    def run_sound(self, *words: str) -> Ended:
        """A run of the sound case alone."""
        shutil.copy(self.shared / "good.jsonl", self.work)
        return self.do("run", "tamu", "good.jsonl", "--model", "scripted:auto", "--out", "r", *words)

    def run(self, *words: str) -> Ended:
        """A run over hostile files and a sound case, which must come to what it comes to without them."""
        shutil.copy(self.shared / "good.jsonl", self.work)
        model = () if "--model" in words else ("--model", "scripted:auto")
        given = (*words, "good.jsonl", "--recipe", self.recipe, "--out", "r", *model)
        ended = self.do("run", "tamu", *given)
        if ended.code in (0, 1) and (self.work / "r" / CASES).exists():
            self._compare()
        return ended

    def _compare(self) -> None:
        """The sound case, its prompts, and the files of the run."""
        run = self.work / "r"
        lines = [line for line in (run / CASES).read_bytes().splitlines() if b'"case_id": "good"' in line]
        if lines != (self.shared / "good" / CASES).read_bytes().splitlines():
            self.found.add("the sound case has another result")
        with closing(Journal(run / CALLS, read_only=True)) as journal:
            for conversation in journal.conversations():
                text = "\n".join(turn.text for turn in conversation)
                if SECRET in text:
                    self.found.add("a prompt holds another file")
                if "procedure good" in text and self.marker in text:
                    self.found.add("a prompt of the sound case holds another")
        self.do("check", "r")
        self.read()

    def read(self, count: int = 2) -> None:
        """Some of the commands that read a run."""
        (self.work / "other").exists() or shutil.copytree(self.shared / "good", self.work / "other")
        for words in self.draw.sample(READERS, count):
            self.do(*words)


def _json_cases(bench: Bench) -> Ended:
    spoilt = spoil_json([record("h1"), record("h2")], bench.marker, bench.draw, lines=True)
    return bench.run(bench.write(bench.draw.choice(("h.jsonl", "h.jsonl", "h.jsonl.gz")), spoilt))


def _xml_cases(bench: Bench) -> Ended:
    return bench.run(bench.write("h.xml", spoil_xml(xml_cases(), bench.marker, bench.draw, bench.secret)))


def _questions(bench: Bench) -> Ended:
    document = json.loads((SAMPLES / "bioasq" / "questions.json").read_bytes())
    document["questions"] = document["questions"][:2]
    name = bench.write("q.json", spoil_json(document, bench.marker, bench.draw))
    if bench.draw.random() < 0.3:
        return bench.do("cases", "pubmedqa", name, "--out", "made.json")
    return bench.do("run", "bioasq", name, "--phase", "b", "--model", "scripted:auto", "--out", "r")


def _tables(bench: Bench) -> Ended:
    what, text = hostile_text(bench.marker, bench.draw)
    rows = f"id,question,note\nh1,Why was it done?,Sentence one. Sentence two.\n{text},{text},{text}\n"
    spoilt = what, rows.encode("utf-8", "surrogatepass")
    if bench.draw.random() < 0.3:
        spoilt = spoil_bytes(rows.encode("utf-8", "replace"), bench.marker, bench.draw)
    name = bench.write(bench.draw.choice(("n.csv", "n.tsv", "n.txt")), spoilt)
    ended = bench.do("cases", "import", name, "--question", "Why?", "--out", "made.jsonl", "--show", "2")
    if ended.code == 0:
        bench.run("made.jsonl")
    return ended


def _keys(bench: Bench) -> Ended:
    name = bench.write("k.json", spoil_json(KEY, bench.marker, bench.draw))
    lines = "".join(json.dumps(record(one)) + "\n" for one in ("h1", "h2"))
    (bench.work / "c.jsonl").write_text(lines)
    match bench.draw.choice(("run", "score", "build")):
        case "run":
            return bench.run("c.jsonl", "--key", name)
        case "score":
            shutil.copytree(bench.shared / "run", bench.work / "r")
            return bench.do("score", "r", "--key", name, "--cases", "c.jsonl")
        case _:
            return bench.do(
                "demos", "build", "c.jsonl", "--key", name, "--embedding", "lexical:256", "--to", "pool"
            )


def _pools(bench: Bench) -> Ended:
    shutil.copytree(bench.shared / "pool", bench.work / "pool")
    files = sorted(path for path in (bench.work / "pool").rglob("*") if path.is_file())
    path = bench.draw.choice(files)
    content = path.read_bytes()
    if path.suffix == ".json" and bench.draw.random() < 0.7:
        bench.trick, content = spoil_json(json.loads(content), bench.marker, bench.draw)
    else:
        bench.trick, content = spoil_bytes(content, bench.marker, bench.draw)
    path.write_bytes(content)
    if bench.draw.random() < 0.5:
        return bench.do("demos", "list", "pool", "--embedding", "lexical:256")
    return bench.run_sound("--recipe", bench.recipe, "--demos", "pool")


def _recipes(bench: Bench) -> Ended:
    name = bench.write(
        "x.yaml", spoil_yaml({**RECIPE, "held_out": ["a"], "seed": 3}, bench.marker, bench.draw)
    )
    if bench.draw.random() < 0.3:
        return bench.do("recipes", name)
    return bench.run_sound("--recipe", name)


def _policies(bench: Bench) -> Ended:
    name = bench.write("policy.yaml", spoil_yaml(POLICY, bench.marker, bench.draw))
    named = ("--policy", name) if bench.draw.random() < 0.5 else ()
    return bench.run_sound("--recipe", bench.recipe, *named)


def _prices(bench: Bench) -> Ended:
    name = bench.write("prices.yaml", spoil_yaml(PRICES, bench.marker, bench.draw))
    return bench.run_sound("--recipe", bench.recipe, "--prices", name, "--max-cost", "1")


def _prompts(bench: Bench) -> Ended:
    shutil.copytree(ROOT / "prompts" / "default", bench.work / "mine")
    path = bench.work / "mine" / bench.draw.choice(("label_evidence", "generate_answer", "classify_intent"))
    path = path.with_suffix(".yaml")
    bench.trick, content = spoil_yaml(yaml.safe_load(path.read_bytes()), bench.marker, bench.draw)
    path.write_bytes(content)
    (bench.work / "x.yaml").write_text(yaml.safe_dump({**RECIPE, "prompts": "mine"}))
    return bench.run_sound("--recipe", "x.yaml")


def _submissions(bench: Bench) -> Ended:
    what, content = spoil_json(SUBMISSION, bench.marker, bench.draw)
    name = "s.json"
    if bench.draw.random() < 0.5:
        name = "s.zip"
        inner = bench.draw.choice(("submission.json", f"../../../{bench.marker}", "a\x1b[31m.json"))
        with ZipFile(bench.work / name, "w") as packed:
            packed.writestr(inner, content)
        if bench.draw.random() < 0.3:
            what, content = spoil_bytes((bench.work / name).read_bytes(), bench.marker, bench.draw)
            (bench.work / name).write_bytes(content)
        bench.trick = f"{what}, packed"
    else:
        bench.write(name, (what, content))
    (bench.work / "k.json").write_text(json.dumps(KEY))
    words = ("--task", "2026-2", "--key", "k.json")
    if bench.draw.random() < 0.3:
        return bench.do("score", name, *words)
    return bench.do("validate", name, *bench.draw.choice(((), words, ("--task", "2025"), ("--json", *words))))


def _replies(bench: Bench) -> Ended:
    what, text = hostile_text(bench.marker, bench.draw)
    role = bench.draw.choice(("answer", "label", "classify", "reflect"))
    bench.trick = f"{what} as a reply"
    (bench.work / "reply.txt").write_bytes(text.encode("utf-8", "surrogatepass"))
    (bench.work / "script.py").write_text(
        "from pathlib import Path\nfrom serving.backends.scripted import made_up_reply\n"
        "text = Path('reply.txt').read_bytes().decode('utf-8', 'surrogatepass')\n\n"
        f"def reply(call):\n    hit = call.role == {role!r} and call.case_id != 'good'\n"
        "    return text if hit else made_up_reply(call)\n"
    )
    lines = "".join(json.dumps(record(one)) + "\n" for one in ("h1", "h2"))
    (bench.work / "c.jsonl").write_text(lines)
    return bench.run("c.jsonl", "--model", "scripted:script.py:reply")


def _documents(bench: Bench) -> Ended:
    documents = [
        {"id": f"d{n}", "title": f"Trial {n}", "text": f"Marrowroot word{n}. Another sentence.", "year": 2001}
        for n in range(3)
    ]
    spoilt = spoil_json(documents, bench.marker, bench.draw, lines=True)
    name = bench.write(bench.draw.choice(("d.jsonl", "d.jsonl", "d.jsonl.gz")), spoilt)
    ended = bench.do("corpus", "build", name, "--min-df", "1", "--out", "corpus")
    if ended.code == 0:
        bench.do("corpus", "search", "corpus", "marrowroot", *bench.draw.choice(((), ("--json",))))
        bench.do("corpus", "show", "corpus")
    return ended


def _run_folders(bench: Bench) -> Ended:
    """A run that somebody else has written, with checksums that fit."""
    run = bench.work / "r"
    shutil.copytree(bench.shared / "run", run)
    seals = bench.draw.random() < 0.7
    name = bench.draw.choice((CASES, CASES, MANIFEST, MANIFEST, TRACE, "audit.jsonl", "reviews.jsonl", CALLS))
    path = run / name
    if name == MANIFEST:
        document = json.loads(path.read_bytes())
        document.pop("crc32")
        bench.trick, content = spoil_json(document, bench.marker, bench.draw)
        if seals and (document := _sound(content)):
            content = seal_document(json.dumps(document, indent=2).encode() + b"\n")
        (run / f".{MANIFEST}.copy").unlink()
    elif name == CALLS:
        bench.trick, content = spoil_bytes(path.read_bytes(), bench.marker, bench.draw)
    else:
        packed = path.read_bytes()
        text = gzip.decompress(packed) if name == TRACE else packed
        first = json.loads(text.partition(b"\n")[0])
        first.pop("crc32", None)
        bench.trick, content = spoil_json(first, bench.marker, bench.draw)
        if seals and name == CASES and (document := _sound(content)):
            content = seal_line(json.dumps(document).encode()) + b"\n"
        content += b"".join(text.splitlines(keepends=True)[1:])
        content = gzip.compress(content) if name == TRACE else content
    path.write_bytes(content)
    bench.trick = f"{bench.trick}, {name}"
    (run / "index.sqlite").unlink(missing_ok=True)
    shutil.copytree(bench.shared / "good", bench.work / "other")
    case = bench.draw.choice(("h1", "good"))
    more = (("show", "r", case), ("show", "r", case, "--calls"), ("show", "r", case, "--json"))
    *_, last = [bench.do(*words) for words in bench.draw.sample((*READERS, *more), 3)]
    return last


def _sound(content: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(content)
        json.dumps(found).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


def _words(bench: Bench) -> Ended:
    """Names and values on the command line itself, which cannot contain NUL."""
    texts = [name for name in TEXTS if name not in ("NUL", "lone surrogates", "10 MB", "1 MB in a word")]
    bench.trick = bench.draw.choice(texts)
    text = TEXTS[bench.trick](bench.marker)
    if bench.draw.random() < 0.15:
        bench.trick, text = "bytes that are not UTF-8", f"\udcff\udc80{bench.marker}"
    shutil.copytree(bench.shared / "run", bench.work / "r")
    shutil.copy(bench.shared / "good.jsonl", bench.work)
    run = ("run", "tamu", "good.jsonl", "--recipe", bench.recipe, "--out", "new")
    words: Sequence[tuple[str, ...]] = (
        ("show", "r", text),
        ("show", text),
        ("runs", "tag", "r", text),
        ("runs", "note", "r", text),
        ("review", "r", "h1", "--by", text, "--confirm"),
        ("review", "r", "h1", "--by", "Ann", "--comment", text, "--confirm"),
        ("review", "r", "h1", "--by", "Ann", "--answer", text),
        ("review", "r", text, "--by", "Ann", "--confirm"),
        (*run, "--model", text),
        (*run, "--model", f"vllm:{text}@http://127.0.0.1:9/v1", "--max-retries", "0"),
        (*run, "--model", f"openai:m@{text}"),
        (*run, "--model", "scripted:auto", "--set", text),
        (*run, "--model", "scripted:auto", "--set", f"evidence.votes={text}"),
        (*run, "--model", "scripted:auto", "--votes", text),
        ("run", text, "good.jsonl", "--model", "scripted:auto"),
        ("run", "tamu", text, "--model", "scripted:auto"),
        ("run", "tamu", "good.jsonl", "--recipe", text, "--model", "scripted:auto"),
        ("score", "r", "--case-ids", text),
        ("recipes", text),
        ("demos", "query", text, "--embedding", "lexical:256"),
        ("demos", "query", text, "--embedding", text),
        ("ask", text, "--note", "good.jsonl", "--model", "scripted:auto"),
        ("view", text, "--bundle", "pages"),
        ("purge", "r", text, "--yes"),
        (text,),
        ("show", "r", f"--{text}"),
    )
    chosen = bench.draw.choice(words)
    ended = bench.do(*chosen)
    if ended.code == 0:
        if (bench.work / "new" / CASES).exists() or chosen[0] in ("review", "runs"):
            bench.read(2)
        bench.do("runs", "--root", ".")
    return ended


def _folders(bench: Bench) -> Ended:
    """Files and folders with names of an attacker's choice."""
    texts = [name for name in TEXTS if name not in ("NUL", "empty text", "marks on marks")]
    texts = [name for name in texts if len(TEXTS[name](bench.marker)) < 150]
    bench.trick = bench.draw.choice(texts)
    text = TEXTS[bench.trick](bench.marker).encode("utf-8", "replace").decode()
    name = text.replace("/", "_")
    if bench.draw.random() < 0.25:
        bench.trick, name = "bytes that are not UTF-8", f"\udcff\udc80{bench.marker}"
    if name in (".", ".."):
        name = "_"
    bench.trick = f"{bench.trick} in a name"
    run = ("--recipe", bench.recipe, "--model", "scripted:auto", "--out")
    match bench.draw.choice(("cases", "out", "run", "folder")):
        case "cases":
            shutil.copy(bench.shared / "good.jsonl", bench.work / f"{name}.jsonl")
            return bench.do("run", "tamu", f"{name}.jsonl", *run, "r")
        case "out":
            shutil.copy(bench.shared / "good.jsonl", bench.work)
            ended = bench.do("run", "tamu", "good.jsonl", *run, name)
            bench.do("show", name)
            bench.do("view", name, "--bundle", "pages")
            return ended
        case "run":
            shutil.copytree(bench.shared / "run", bench.work / name)
            bench.do("runs", "--root", ".", *bench.draw.choice(((), ("--json",))))
            bench.do("export", name, "--csv", "--out", "tables")
            return bench.do("resume", name)
        case _:
            (bench.work / name).mkdir()
            shutil.copy(bench.shared / "good.jsonl", bench.work / name)
            bench.do("show", name)
            return bench.do("run", "tamu", name, *run, "r")


KINDS: dict[str, Callable[[Bench], Ended]] = {
    "cases, JSON lines": _json_cases,
    "cases, XML": _xml_cases,
    "questions": _questions,
    "notes and tables": _tables,
    "keys": _keys,
    "pools": _pools,
    "recipes": _recipes,
    "policies": _policies,
    "prices": _prices,
    "prompts": _prompts,
    "submissions": _submissions,
    "replies of a model": _replies,
    "documents": _documents,
    "run folders": _run_folders,
    "words of a command": _words,
    "names of files": _folders,
}


def prepare(worker: Worker, shared: Path) -> None:
    """A sound run, the same with reviews, and a pool."""
    (shared / "good.jsonl").write_text(json.dumps(record(GOOD_ID)) + "\n")
    (shared / "three.jsonl").write_text(
        "".join(json.dumps(record(name)) + "\n" for name in ("h1", "h2", GOOD_ID))
    )
    (shared / "lexical.yaml").write_text(LEXICAL_RECIPE)
    environment = {"PATH": os.environ["PATH"], "HOME": str(shared), "OMP_NUM_THREADS": "1"}
    run = ("--recipe", "lexical.yaml", "--model", "scripted:auto", "--out")
    pool = ("--embedding", "lexical:256", "--to", "pool")
    for words in (
        ("run", "tamu", "good.jsonl", *run, "good"),
        ("run", "tamu", "three.jsonl", *run, "run"),
        ("review", "run", "h1", "--by", "Ann", "--comment", "Fine.", "--confirm"),
        ("demos", "build", str(SAMPLES / "pool.xml"), *pool),
    ):
        ended = worker.do(words, shared, environment, 120)
        assert ended.code == 0, ended


def play(kind: str, worker: Worker, shared: Path, base: Path, marker: str, draw: Draw) -> Outcome:
    """Write a hostile file, give the commands that read it, and judge them."""
    bench = Bench(worker, shared, base, marker, draw, Found())
    bench.work.mkdir(parents=True)
    (base / "secret.txt").write_text(SECRET)
    before = {base / "secret.txt", base / "a", base / "a" / "b", bench.work}
    ended = KINDS[kind](bench)
    judge_files(before, base, bench.work, marker, bench.found)
    return Outcome(kind, bench.trick, end_of(ended), tuple(bench.found.faults))
