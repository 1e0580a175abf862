"""What commands import, imported once: a process that is forked from here begins with all of it."""

from __future__ import annotations

import atexit
import gc
import importlib
from pathlib import Path

from graph.system import find_system, systems
from prompts import load_prompts
from runs.execute.batch import heap_was_frozen
from runs.record.manifest import own_version, versions
from weights.loading import let_threads_sleep, stay_offline

ROOT = Path(__file__).parents[1]

_OF_OTHERS = [
    *("asyncio", "typer.rich_utils", "rich.console", "rich.markdown", "rich.progress", "rich.table", "yaml"),
    *("langgraph.graph", "langchain_core.language_models", "langchain_openai", "chromadb.api.rust"),
    *("numpy", "orjson", "aiohttp", "httpx", "bm25s", "sentencex", "scipy.stats", "jinja2", "lxml.etree"),
    *("tenacity", "pydantic", "pyarrow.parquet", "matplotlib.figure", "matplotlib.backends.backend_svg"),
]
# The packaged encoder, seven seconds of a processor: `torch` alone imports no model of transformers.
_OF_ENCODERS = [
    *("torch", "transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("transformers.models.bert.modeling_bert", "transformers.models.bert.tokenization_bert"),
    "sentence_transformers",
]
_FILES = sorted([*ROOT.glob("cli/**/[!_]*.py"), *ROOT.glob("graph/[!_]*.py")])
# What a module needs does not depend on the modules before it: none is in a circle of imports.
_OURS = [
    *(".".join(path.relative_to(ROOT).with_suffix("").parts) for path in _FILES),
    *("serving.backends.scripted", "serving.policy.privacy"),
]

stay_offline()
let_threads_sleep()
gc.disable()
for _name in (*_OF_OTHERS, *_OF_ENCODERS, *_OURS):
    importlib.import_module(_name)
for _system in map(find_system, systems()):
    assert _system.successors and load_prompts("default", _system.contracts)
assert versions() and own_version()
# A search for garbage would go through all of it, and so copy its pages, in every command.
gc.freeze()
assert heap_was_frozen()
gc.enable()
# Extension modules look at the end for what is left of theirs, and print it.
atexit.register(gc.unfreeze)
