"""What is recorded: every system and packaged recipe on invented cases, and every command that is cheap.

No model is asked but the scripted one, and no weights are loaded. Recipes are therefore taken with these
values changed: demonstrations are compared by words, `retriever` and `ranker` are `bm25`, citations that are
made afterwards weigh no meaning, and `timeaware-released` reads whole abstracts. Left out are `train`,
`bench`, `serve`, `models pull` and `models check`, which need weights, servers or minutes.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import BaseModel
from typer.core import TyperGroup

from cli.main import app
from evals.experiments.definition import Experiment
from graph.system import find_system, systems
from ranking.training.recipe import TrainingRecipe
from serving.policy.policy import Policy
from tests.goldens.recorder import ONE_AT_A_TIME, ROOT, Recorder, settle, watch

SAMPLES = ROOT / "cases" / "samples"
RECIPES = ROOT / "graph" / "recipes"
LIST_WIDTH = 100

NOTES, NOTES_KEY = "samples/batch.xml", "samples/batch_key.json"
HEALTH, LITERATURE = "samples/health/questions.jsonl", "samples/health/literature.jsonl"
QUESTIONS, DOCUMENTS = "samples/bioasq/questions.json", "samples/bioasq/documents.jsonl"
SCRIPTED = ("--model", "scripted:auto")
FIRST, FIRST_TWO = "first.xml", "first_two.xml"
"""Case files of their own, since only a run of all cases of its files can be submitted."""
ONE, TWO = ("--limit", "1"), ("--limit", "2")
WORDS = "lexical:256"
BY_WORDS = ("--embedding", WORDS)

TAMU = (
    *("tamu", "tamu-submitted", "ask", "demo", "tamu-mixed", "tamu-pointwise", "tamu-ranker", "laptop"),
    *("archehr-2025", "archehr-2026", "archehr-2026-question"),
)
CHANGES = {
    "tamu": [("embedding: embedded:minilm", f"embedding: {WORDS}")],
    "tamu-mixed": [("ranker: logistic", "ranker: bm25")],
    "laptop": [("ranker: logistic", "ranker: bm25")],
    "tamu-ranker": [("ranker: logistic", "ranker: bm25")],
    "heids": [("retriever: similarity", "retriever: bm25")],
    "heids-post-generation": [
        ("retriever: similarity", "retriever: bm25"),
        ("lexical: 0.4", "lexical: 0.5"),
        ("fuzzy: 0.3", "fuzzy: 0.5"),
        ("semantic: 0.3", "semantic: 0.0"),
    ],
    "timeaware-released": [("doc_mode: top3", "doc_mode: full")],
}
"""What spares a packaged recipe its weights."""

_KNOWN: tuple[dict[str, Any], ...] = (
    {"answer": "It was done for a leak."},
    {"answer": "The [bold]leak[/bold] made it necessary. It helped."},
    {},
    {"answer": "For a leak.", "labels": {"1": "not-relevant", "2": "essential", "3": "not-relevant"}},
)

ANSWERED = [
    {
        "case_id": f"w{number}",
        "question": f"Why was procedure {number} done?",
        "sentences": ["Stable.", f"Procedure {number} was done for a leak.", "Smoker."],
        **more,
    }
    for number, more in enumerate(_KNOWN, start=1)
]
"""Cases for `weak_labels`: two to label, one without an answer, one that people have labelled."""

ASKING = f"""\
system: tamu
embedding: {WORDS}
evidence: {{demonstrations: 0, votes: 3, threshold: 2, reflection: false}}
answer: {{demonstrations: 0}}
review: {{disagreement: 0.2}}
"""

GRID = f"""\
recipe: small.yaml
cases: {NOTES}
model: scripted:auto
cells:
  few-shot:
    set: {{evidence.votes: 1, evidence.threshold: 1, stop_after: evidence}}
  voting:
    set: {{stop_after: evidence}}
tables:
  3: [few-shot, voting]
"""

SMALL = f"""\
system: tamu
embedding: {WORDS}
evidence: {{demonstrations: 1, votes: 3, threshold: 2, reflection: false}}
answer: {{demonstrations: 1}}
"""

REFUSED = {
    "no-such-run": ("show", "nowhere"),
    "no-such-case": ("show", "tamu", "nobody"),
    "no-such-file": ("run", "tamu", "nowhere.xml", *SCRIPTED),
    "no-such-system": ("run", "nothing", NOTES, *SCRIPTED),
    "no-such-recipe": ("run", "tamu", NOTES, *SCRIPTED, "--recipe", "nothing"),
    "no-such-option": ("run", "tamu", NOTES, "--nothing"),
    "no-such-command": ("nothing",),
    "no-model": ("run", "tamu", NOTES, "--recipe", "small.yaml"),
    "no-corpus": ("run", "timeaware", HEALTH, *SCRIPTED),
    "another-system": ("run", "heids", NOTES, *SCRIPTED, "--recipe", "small.yaml"),
    "a-phase-of-tamu": ("run", "tamu", NOTES, *SCRIPTED, "--phase", "b"),
    "a-folder-that-is-full": ("run", "tamu", NOTES, *SCRIPTED, "--recipe", "small.yaml", "--out", "tamu"),
    "a-task-of-another-system": ("submit", "tamu", "--task", "bioasq-b"),
    "a-vote-of-sentences": ("run", "tamu", NOTES, *SCRIPTED, "--recipe", "tamu-pointwise", "--votes", "5"),
    "a-bad-value": ("rerun", "tamu", "101", "--from", "generate_answer", "--set", "answer.max_words=no"),
}


def record(recorder: Recorder) -> None:
    """Run all commands; those that read runs come after those that make them."""
    write_inputs(recorder.folder)
    record_lists(recorder)
    record_literature(recorder)
    record_runs(recorder)
    record_readings(recorder)
    record_comparisons(recorder)
    record_later_sessions(recorder)
    record_weak_labels(recorder)
    record_pools(recorder)
    record_rankings(recorder)
    record_pages(recorder)
    for name, arguments in REFUSED.items():
        recorder.command(f"refused/{name}", *arguments)
    record_results(recorder)
    record_hosts(recorder)


def record_hosts(recorder: Recorder) -> None:
    """Which hosts each command turned to, by the registry of commands, so that none is forgotten."""
    lines = []
    for words in commands():
        name = " ".join(words)
        ran = [hosts for given, hosts in recorder.reached.items() if f"{given} ".startswith(f"{name} ")]
        found = ", ".join(sorted(set().union(*ran))) or "no host"
        lines.append(f"{name or 'evigraph'}: {found if ran else 'not run here'}")
    recorder.keep("lists/hosts.txt", "\n".join(lines))


def write_inputs(folder: Path) -> None:
    """Samples, recipes and the other files that commands read."""
    shutil.copytree(SAMPLES, folder / "samples")
    (folder / "recipes").mkdir()
    for path in RECIPES.glob("*.yaml"):
        text = path.read_text("utf-8")
        for before, after in CHANGES.get(path.stem, []):
            if text.count(before) != 1:
                raise ValueError(f"{path.name} does not have {before!r} once")
            text = text.replace(before, after)
        if path.stem in TAMU and path.stem != "tamu":
            text += f"embedding: {WORDS}\n"
        (folder / "recipes" / path.name).write_text(text, "utf-8")
    for name, text in (("asking.yaml", ASKING), ("grid.yaml", GRID), ("small.yaml", SMALL)):
        (folder / name).write_text(text, "utf-8")
    for name, count in ((FIRST, 1), (FIRST_TWO, 2)):
        write_first(folder, name, count)
    answered = "".join(json.dumps(case) + "\n" for case in ANSWERED)
    (folder / "answered.jsonl").write_text(answered, "utf-8")
    (folder / "summary.txt").write_text("A drain was placed.\nThe moon is made of cheese.\n", "utf-8")
    (folder / "broken.py").write_text("def reply(call):\n    return 'no JSON'\n", "utf-8")


def write_first(folder: Path, name: str, count: int) -> None:
    """The first invented cases and their key, as files of their own."""
    notes, end = (folder / NOTES).read_text("utf-8"), "</case>"
    first = [f"{part}{end}" for part in notes.split(end)[:count]]
    (folder / name).write_text("".join(first) + "\n</annotations>\n", "utf-8")
    key = json.loads((folder / NOTES_KEY).read_text("utf-8"))[:count]
    (folder / name).with_name(f"{Path(name).stem}_key.json").write_text(json.dumps(key), "utf-8")


def record_lists(recorder: Recorder) -> None:
    """Options of every command, and what is listed without a run."""
    recorder.keep("help/commands.json", options_text())
    recorder.keep("lists/fields.txt", fields_text())
    recorder.command("lists/models", "models", "list", width=LIST_WIDTH)
    recorder.command("lists/models-json", "models", "list", "--json")
    recorder.command("lists/recipes", "recipes", width=LIST_WIDTH)
    recorder.command("lists/serve-recipes", "serve", "--recipes")
    for system in sorted(path.stem for path in RECIPES.glob("*.yaml") if system_of(path) == path.stem):
        recorder.command(f"lists/graph-{system}", "graph", system)


def fields_text() -> str:
    """Type, bounds and default of every field of a recipe, an experiment, a training and a policy."""
    found: dict[str, Any] = {}
    recipes = (find_system(name).recipe for name in systems())
    kinds: list[type[BaseModel]] = [*recipes, Experiment, TrainingRecipe, Policy]
    for kind in kinds:
        schema = kind.model_json_schema()
        found |= {**schema.get("$defs", {}), kind.__name__: schema}
    lines = []
    for name, schema in sorted(found.items()):
        for field, value in schema.get("properties", {}).items():
            kept = {key: value[key] for key in value if key not in ("title", "description")}
            lines.append(f"{name}.{field}: {json.dumps(kept, sort_keys=True)}")
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, ...]]:
    """The words of every command and of every group, the program itself first."""
    return (names for names, _ in registry())


def leaves() -> set[str]:
    """Every command that is not a group."""
    names = [" ".join(words) for words in commands() if words]
    return {one for one in names if not any(other.startswith(f"{one} ") for other in names)}


def registry() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and every group by its words, the program itself first."""

    def below(names: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield names, command
        if isinstance(command, TyperGroup):
            context = typer.Context(command)
            for name in sorted(command.list_commands(context)):
                yield from below((*names, name), command.get_command(context, name))

    return below((), typer.main.get_command(app))


def options_text() -> str:
    """Each option and argument of each command, with its type and its default, in one JSON object."""
    blocks = []
    for names, command in registry():
        types = inspect.signature(command.callback, eval_str=True).parameters if command.callback else {}
        lines = [
            f"  {json.dumps(', '.join(one.opts + one.secondary_opts))}:"
            f" {json.dumps([type_text(types[one.name].annotation, one), one.default], default=str)}"
            for one in command.params
            if one.name in types
        ]
        blocks.append(f" {json.dumps(' '.join(names))}: {{\n" + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(blocks) + "\n}"


def type_text(annotation: Any, option: Any) -> str:
    """The type that a command's function gives an option; whether it must be given, and may be repeated."""
    kind = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    name = str(kind.__name__ if isinstance(kind, type) else kind)
    for long, short in (("pathlib.", ""), ("typing.", ""), (" | None", "")):
        name = name.replace(long, short)
    return f"{name}, required" if option.required else name


def system_of(recipe: Path) -> str:
    """Graph of a packaged recipe; empty if the recipe is unknown."""
    if not recipe.is_file():
        return ""
    lines = recipe.read_text("utf-8").splitlines()
    (system,) = (line.split()[1] for line in lines if line.startswith("system:"))
    return system


def record_literature(recorder: Recorder) -> None:
    """Corpora and an index of vectors of words, and what is found in them."""
    for name, documents, query in (
        ("health", LITERATURE, "Does a tea shorten the common cold?"),
        ("bioasq", DOCUMENTS, "Which protein causes the disease?"),
    ):
        corpus, index = f"{name}-corpus", f"{name}-index"
        for form, more in (("", ()), ("-json", ("--json",))):
            recorder.command(f"{corpus}/build{form}", "corpus", "build", documents, "--out", corpus, *more)
            recorder.command(f"{corpus}/show{form}", "corpus", "show", corpus, *more)
            recorder.command(f"{corpus}/search{form}", "corpus", "search", corpus, query, "-k", "3", *more)
            build = ("index", "build", corpus, "--out", index, "--embedding", "lexical:64")
            recorder.command(f"{index}/build{form}", *build, *more)
            recorder.command(f"{index}/show{form}", "index", "show", index, *more)
            recorder.command(f"{index}/search{form}", "index", "search", index, query, "-k", "3", *more)
            recorder.command(f"{index}/recall{form}", "index", "recall", index, "--queries", "20", *more)


def record_runs(recorder: Recorder) -> None:
    """A run of each packaged recipe, and of the settings that make others of them."""
    for name, arguments in recipe_runs(*SCRIPTED).items():
        recorder.run(name, *arguments, manifest=name == system_of(RECIPES / f"{name}.yaml"))
    small = ("run", "tamu", NOTES, "--recipe", "small.yaml", *SCRIPTED, *TWO)
    recorder.run("adaptive-votes", *small[:-1], "1", "--votes", "3..7", "--threshold", "4")
    recorder.run("failed", *small[:-4], *TWO, "--model", "label=scripted:broken.py:reply", *SCRIPTED)
    recorder.run("waiting", *small[:4], "asking.yaml", *SCRIPTED, *TWO)
    recorder.command("lists/run-json", *small, *ONE_AT_A_TIME, "--json", "--out", "told")


def recipe_runs(*model: str) -> dict[str, tuple[str, ...]]:
    """The command that runs each packaged recipe, by the name of its run."""
    runs: dict[str, tuple[str, ...]] = {}
    for name in TAMU:
        limit = TWO if name in ("tamu", "demo") else ONE
        cases = (FIRST,) if name in ("archehr-2025", "archehr-2026") else (NOTES, *limit)
        runs[name] = ("run", "tamu", *cases, *recipe(name), *model)
    for name in ("heids", "heids-post-generation"):
        runs[name] = ("run", "heids", FIRST_TWO, *recipe(name), *model)
    for name in ("timeaware", "timeaware-released"):
        limit = TWO if name == "timeaware" else ONE
        runs[name] = ("run", "timeaware", HEALTH, *recipe(name), "--corpus", "health-corpus", *model, *limit)
    runs["weak_labels"] = ("run", "weak_labels", "answered.jsonl", *recipe("weak_labels"), *model)
    runs["direct"] = ("run", "direct", FIRST_TWO, *recipe("direct"), *model)
    index = ("--index", "bioasq-index")
    bioasq = ("run", "bioasq", QUESTIONS, *model)
    runs["bioasq"] = (*bioasq, *recipe("bioasq"), "--limit", "3")
    runs["bioasq-a"] = (*bioasq, *recipe("bioasq"), "--phase", "a", *index, *TWO)
    runs["bioasq-both"] = (*bioasq, *recipe("bioasq"), "--phase", "both", *index, *TWO)
    runs["bioasq-paper"] = (*bioasq, *recipe("bioasq-paper"), "--reranker", "bm25", *index, *ONE)
    # The others need no more than notes.
    for name in sorted({path.stem for path in RECIPES.glob("*.yaml")} - runs.keys()):
        runs[name] = ("run", system_of(RECIPES / f"{name}.yaml"), NOTES, *recipe(name), *model, *TWO)
    return runs


def recipe(name: str) -> tuple[str, str]:
    """A packaged recipe without weights."""
    return ("--recipe", f"recipes/{name}.yaml")


def record_readings(recorder: Recorder) -> None:
    """What `show`, `score`, `analyse`, `export`, `submit` and a dry run make of runs."""
    cases = {
        **{
            name: "101"
            for name in (*TAMU, "direct", "heids", "heids-post-generation", "adaptive-votes", "failed")
        },
        **{name: "h1" for name in ("timeaware", "timeaware-released")},
        **{name: first_question() for name in ("bioasq", "bioasq-a", "bioasq-both", "bioasq-paper")},
        "weak_labels": "w1",
        "waiting": "101",
    }
    for run, case in cases.items():
        recorder.command(f"{run}/show", "show", run)
        recorder.command(f"{run}/show-case", "show", run, case)
        for verb in ("score", "analyse"):
            recorder.command(f"{run}/{verb}", verb, run)
    recorder.command("tamu/analyse-json", "analyse", "tamu", "--json")
    for run in ("demo", "heids", "timeaware", "weak_labels", "bioasq"):
        recorder.command(f"{run}/show-json", "show", run, "--json")
        recorder.command(f"{run}/score-json", "score", run, "--json")
        if run != "demo":
            recorder.command(f"{run}/show-case-json", "show", run, cases[run], "--json")
        recorder.command(f"{run}/export", "export", run)
        recorder.command(f"{run}/export-json", "export", run, "--json")
        for path in sorted((recorder.folder / run / "frames").glob("*.parquet")):
            recorder.rows(f"{run}/frames-{path.stem}.txt", f"{run}/frames/{path.name}")
        recorder.command(f"{run}/spans", "export", run, "--spans", f"{run}.spans")
    recorder.command("weak_labels/show-case-calls", "show", "weak_labels", "w1", "--calls")
    recorder.file("weak_labels/spans.jsonl", "weak_labels.spans")
    record_submissions(recorder)
    record_dry_runs(recorder)


def first_question() -> str:
    """The id of the first sample of BioASQ."""
    (first, *_) = json.loads((SAMPLES / "bioasq" / "questions.json").read_text("utf-8"))["questions"]
    return str(first["id"])


def record_submissions(recorder: Recorder) -> None:
    """Submissions of runs to every task, checked and scored."""
    for run, tasks in {
        "archehr-2025": ["2025", "2026-2"],
        "archehr-2026": ["2026-1", "2026-2", "2026-3", "2026-4"],
        "heids": ["2025"],
        "heids-post-generation": ["2025"],
        "direct": ["2025", "2026-4"],
        "bioasq": ["bioasq-b"],
        "bioasq-a": ["bioasq-a"],
        "bioasq-both": ["bioasq-a+", "bioasq-b"],
        "failed": ["2026-2"],
    }.items():
        for task in tasks:
            file = f"{run}-{task.replace('+', '-plus')}.json"
            name = f"{run}/submit-{task.replace('+', '-plus')}"
            recorder.command(name, "submit", run, "--task", task, "--out", file)
            recorder.command(f"{name}-json", "submit", run, "--task", task, "--out", file, "--json")
            if not (recorder.folder / file).is_file():
                continue
            recorder.file(f"{name}-file.json", file)
            gold: tuple[str, ...] = (
                "--task",
                task,
                "--cases",
                QUESTIONS if task.startswith("bioasq") else FIRST if run.startswith("archehr") else FIRST_TWO,
            )
            recorder.command(f"{name}-validate", "validate", file, *gold, "--rows", "3")
            if not task.startswith("bioasq"):
                gold = (*gold, "--case-ids", "101")
            recorder.command(f"{name}-score", "score", file, *gold)
    recorder.command("lists/validate-json", "validate", "heids-2025.json", "--json")
    recorder.command(
        "lists/validate-bioasq-json", "validate", "bioasq-bioasq-b.json", "--task", "bioasq-b", "--json"
    )


def record_dry_runs(recorder: Recorder) -> None:
    """What each system would cost."""
    for name, arguments in {
        "tamu": ("tamu", NOTES, *recipe("tamu")),
        "heids": ("heids", NOTES, *recipe("heids")),
        "timeaware": ("timeaware", HEALTH, *recipe("timeaware"), "--corpus", "health-corpus"),
        "weak_labels": ("weak_labels", "answered.jsonl", *recipe("weak_labels")),
        "bioasq": ("bioasq", QUESTIONS, *recipe("bioasq")),
        "direct": ("direct", NOTES, *recipe("direct")),
    }.items():
        dry_run = ("run", *arguments, *SCRIPTED, *TWO, "--dry-run")
        recorder.command(f"{name}/dry-run", *dry_run)
        recorder.command(f"{name}/dry-run-json", *dry_run, "--json")


def record_comparisons(recorder: Recorder) -> None:
    """Two runs side by side, and an experiment of two cells."""
    resamples = ("--resamples", "999")
    for name, one, other in (
        ("tamu", "tamu", "demo"),
        ("rankers", "tamu-ranker", "tamu-mixed"),
        ("heids", "heids", "heids-post-generation"),
        ("bioasq", "bioasq", "bioasq-both"),
        ("timeaware", "timeaware", "timeaware-released"),
    ):
        recorder.command(f"compare/{name}", "compare", one, other, *resamples)
        recorder.command(f"compare/{name}-json", "compare", one, other, *resamples, "--json")
    recorder.command("experiment/run", "experiment", "grid.yaml", *TWO, "--out", "grid", *ONE_AT_A_TIME)
    again = ("experiment", "grid.yaml", *TWO, "--out", "grid", "--json")
    recorder.command("experiment/run-json", *again)
    for table in ("tables.md", "tables.csv"):
        recorder.file(f"experiment/{table}", f"grid/{table}")


def record_later_sessions(recorder: Recorder) -> None:
    """Runs that go on: resumed, retried, reviewed, run again from a node."""
    recorder.command("sessions/resume", "resume", "demo")
    recorder.command("sessions/resume-json", "resume", "demo", "--json")
    recorder.command("sessions/retry", "retry", "failed")
    recorder.command("sessions/retry-json", "retry", "failed", "--json")
    settle(recorder.folder / "demo")
    settle(recorder.folder / "failed")
    recorder.command("reviews/list", "review", "waiting")
    recorder.command("reviews/list-json", "review", "waiting", "--json")
    recorder.command("reviews/case", "review", "waiting", "101")
    says = ("review", "waiting", "101", "--by", "R. Chen")
    recorder.command("reviews/add", *says, "--essential", "1,3", "--supplementary", "2", "--comment", "Why?")
    recorder.command("reviews/confirm-json", "review", "waiting", "102", "--by", "Ann", "--confirm", "--json")
    settle(recorder.folder / "waiting")
    recorder.command("reviews/resume", "resume", "waiting", *ONE_AT_A_TIME)
    settle(recorder.folder / "waiting")
    recorder.command("reviews/show", "show", "waiting")
    recorder.command("reviews/show-case", "show", "waiting", "101")
    recorder.command("reviews/score", "score", "waiting")
    recorder.command("reviews/export", "review", "waiting", "--export", "reviewed.json")
    recorder.file("reviews/reviewed.json", "reviewed.json")
    again = ("rerun", "tamu", "101", "--from", "generate_answer", "--set", "answer.max_words=40")
    recorder.command("forks/rerun", *again)
    recorder.command("forks/rerun-json", "rerun", "tamu", "101", "--step", "4", "--threshold", "2", "--json")
    recorder.run_files("forks", "tamu/forks/1")
    recorder.command("forks/show-case", "show", "tamu/forks/1", "101")


def record_weak_labels(recorder: Recorder) -> None:
    """Weak labels as a key, and as a pool."""
    recorder.command("weak_labels/key", "demos", "label", "weak_labels", "--to", "weak.json")
    recorder.file("weak_labels/key.json", "weak.json")
    build = ("demos", "build", "answered.jsonl", "--key", "weak.json", "--to", "weak-pool", *BY_WORDS)
    recorder.command("pools/weak-build", *build)
    recorder.command("pools/weak-list", "demos", "list", "weak-pool", *BY_WORDS)


def record_pools(recorder: Recorder) -> None:
    """Pools of demonstrations, built, listed and searched."""
    recorder.command("pools/build", "demos", "build", "samples/pool.xml", "--to", "pool", *BY_WORDS)
    add = ("demos", "add", "pool", "--from-reviews", "waiting", "--to", "pool-2", *BY_WORDS)
    recorder.command("pools/add", *add)
    query = ("demos", "query", "Why was a drain placed instead of surgery?", "pool-2", *BY_WORDS, "-k", "3")
    for form, more in (("", ()), ("-json", ("--json",))):
        recorder.command(f"pools/list{form}", "demos", "list", "pool-2", *BY_WORDS, *more)
        recorder.command(f"pools/query{form}", *query, *more)


def record_rankings(recorder: Recorder) -> None:
    """Rankers without weights: of sentences, of documents, and of what supports a text."""
    search = (QUESTIONS, "--corpus", "bioasq-corpus", "--index", "bioasq-index")
    support = ("summary.txt", NOTES, "--case", "101", "--ranker", "bm25", "--no-cache")
    for form, more in (("", ()), ("-json", ("--json",))):
        recorder.command(f"rankings/rank{form}", "rank", "bm25", NOTES, *more)
        recorder.command(f"rankings/verify{form}", "verify", *support, *more)
        recorder.command(f"rankings/verify-run{form}", "verify", "tamu", *support[2:], *more)
        pairs = ("pairs", *search, "--out", f"pairs{form}.jsonl", "--negatives", "3", *ONE, *more)
        recorder.command(f"rankings/pairs{form}", *pairs)
        rerank = ("--reranker", "bm25", "--depths", "5,10", "--tune", "1/2")
        recorder.command(f"rankings/rankings{form}", "rankings", *search, *rerank, *more)
    recorder.command("rankings/rank-by-cutoff", "rank", "bm25", NOTES, "--by-cutoff")
    recorder.file("rankings/pairs.jsonl", "pairs.jsonl")
    written = ("rank", "bm25", NOTES, "--out", "ranked.jsonl", "--submission", "ranked.json")
    recorder.command("rankings/rank-files", *written)
    recorder.file("rankings/ranked.jsonl", "ranked.jsonl")


def record_pages(recorder: Recorder) -> None:
    """What the viewer's pages are made of; tests of the viewer read the pages."""
    for run in ("demo", "heids", "timeaware", "weak_labels", "bioasq"):
        bundle = f"{run}-pages"
        recorder.command(f"viewer/{run}/bundle", "view", run, "--bundle", bundle)
        recorder.listing(f"viewer/{run}/files.txt", bundle)
        recorder.file(f"viewer/{run}/rows.js", f"{bundle}/{run}/rows.js")
    recorder.command("viewer/redacted/bundle", "view", "timeaware", "--bundle", "redacted", "--redact")


def record_results(recorder: Recorder) -> None:
    """Scores, intervals and comparisons of every system, on all of its invented cases."""
    timeaware = ("timeaware", HEALTH, "--corpus", "health-corpus")
    bioasq = ("bioasq", QUESTIONS, "--index", "bioasq-index")
    for name, arguments in {
        "tamu": ("tamu", NOTES, *recipe("archehr-2026")),
        "small": ("tamu", NOTES, "--recipe", "small.yaml"),
        "heids": ("heids", NOTES, *recipe("heids")),
        "post": ("heids", NOTES, *recipe("heids-post-generation")),
        "direct": ("direct", NOTES, *recipe("direct")),
        "timeaware": (*timeaware, *recipe("timeaware")),
        "released": (*timeaware, *recipe("timeaware-released")),
        "weak": ("weak_labels", "answered.jsonl", *recipe("weak_labels")),
        "bioasq": (*bioasq, *recipe("bioasq"), "--phase", "both"),
        "paper": (*bioasq, *recipe("bioasq-paper"), "--reranker", "bm25"),
    }.items():
        recorder.do("run", *arguments, *SCRIPTED, *ONE_AT_A_TIME, "--out", f"of/{name}")
    by_people = [
        {"case_id": one, "answers": [{"sentence_id": id_, "relevance": "essential"} for id_ in ids]}
        for one, ids in (("w1", "12"), ("w2", "123"))
    ]
    (recorder.folder / "by_people.json").write_text(json.dumps(by_people), "utf-8")
    key = {"weak": ("--key", "by_people.json")}
    for name in ("tamu", "heids", "direct", "timeaware", "weak", "bioasq"):
        recorder.results(f"score-{name}", "score", f"of/{name}", *key.get(name, ()))
    for one, other in (
        ("tamu", "small"),
        ("heids", "post"),
        ("direct", "small"),
        ("timeaware", "released"),
        ("bioasq", "paper"),
    ):
        recorder.results(f"compare-{one}", "compare", f"of/{one}", f"of/{other}")
    for name in ("small", "post"):
        recorder.results(f"analyse-{name}", "analyse", f"of/{name}")
    recorder.results("experiment", "experiment", "grid.yaml", *TWO, "--out", "grid")
    recorder.results("rank", "rank", "bm25", NOTES)
    search = (QUESTIONS, "--corpus", "bioasq-corpus", "--index", "bioasq-index", "--reranker", "bm25")
    recorder.results("rankings", "rankings", *search, "--depths", "5,10", "--tune", "1/2")
    recorder.results(
        "verify", "verify", "summary.txt", NOTES, "--case", "101", "--ranker", "bm25", "--no-cache"
    )


def record_into(goldens: Path, scratch: Path) -> None:
    """Record in a new folder, and write each golden under its name."""
    work, cache = scratch / "work", scratch / "cache"
    for folder in (work, cache):
        folder.mkdir()
    os.environ["EVIGRAPH_CACHE"] = str(cache)
    os.chdir(work)
    sys.addaudithook(watch)
    recorder = Recorder(work, cache)
    record(recorder)
    for name, text in recorder.goldens.items():
        path = goldens / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    record_into(Path(sys.argv[1]), Path(sys.argv[2]).resolve())
