from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from serving.protocol.errors import ModelError
from serving.vllm_server.recipes import (
    ServeRecipe,
    load_serve_recipe,
    packaged_recipe,
    packaged_recipes,
    render_flags,
)

NAMES = [recipe.name for recipe in packaged_recipes()]
LLAMA = "meta-llama/Llama-3.3-70B-Instruct"
MIXTRAL = "mistralai/Mixtral-8x7B-Instruct-v0.1"

# As vLLM itself does when it starts, up to the engine's arguments; the engine would need the GPUs.
PARSE = """
import json, sys
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

def parse(arguments):
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(arguments)
    validate_parsed_serve_args(args)
    engine = AsyncEngineArgs.from_cli_args(args)
    return [engine.tensor_parallel_size, engine.max_model_len, engine.max_num_seqs]

print(json.dumps([parse(arguments) for arguments in json.loads(sys.argv[1])]))
"""


def refused(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(ModelError) as caught:
        load_serve_recipe(str(path))
    return str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_packaged_recipe_names_its_model_and_says_what_it_is(name: str) -> None:
    recipe = load_serve_recipe(name)
    assert recipe.model and recipe.summary
    assert recipe.gpus == (0 if name.endswith("-cpu") else int(name.rpartition("-")[2].removesuffix("gpu")))


@pytest.mark.parametrize("name", NAMES)
def test_every_flag_of_a_packaged_recipe_has_a_comment_or_is_plain(name: str) -> None:
    path = Path(__file__).parents[2] / "serving" / "vllm_server" / "recipes" / f"{name}.yaml"
    lines = path.read_text().splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if line and not line.startswith("#") and not before.startswith("#")
    ]
    assert bare in ([], ["tensor-parallel-size: 1"])


@pytest.mark.parametrize(("model", "gpus"), [(LLAMA, 2), (LLAMA, 4), (LLAMA, 8), (MIXTRAL, 2), (MIXTRAL, 4)])
def test_the_recipe_of_a_model_is_found_by_its_gpus(model: str, gpus: int) -> None:
    recipe = packaged_recipe(model, "gpu", gpus)
    assert recipe is not None
    assert (recipe.model, recipe.gpus) == (model, gpus)


def test_the_cpu_recipe_is_for_the_cpu_build_only() -> None:
    assert packaged_recipe("smollm2-135m", "gpu", 1) is None
    recipe = packaged_recipe("smollm2-135m", "cpu", 1)
    assert recipe is not None and recipe.name == "smollm2-135m-cpu"


def test_a_file_of_flags_is_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("# Mine\nmax_num_seqs: 4\nenforce-eager: true\n")
    recipe = load_serve_recipe(str(tmp_path / "mine.yaml"))
    assert recipe == ServeRecipe(
        str(tmp_path / "mine.yaml"), "Mine", {"max-num-seqs": 4, "enforce-eager": True}
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "must be a mapping"),
        ("a: [\n", "while parsing"),
        ("--dtype: auto\n", "'--dtype' by its long name without dashes"),
        ("dtype:\n", "'dtype' has no value"),
    ],
)
def test_a_broken_recipe_is_refused_with_its_name(tmp_path: Path, text: str, words: str) -> None:
    message = refused(tmp_path / "mine.yaml", text)
    assert "mine.yaml" in message and words in message


def test_flags_become_arguments() -> None:
    assert render_flags({"a": True, "b": False, "c": 3, "d": ["x", 1], "e": {"f": 1}}) == [
        *("--a", "--no-b", "--c", "3", "--d", "x", "1", "--e", '{"f": 1}')
    ]


@pytest.mark.vllm
def test_vllm_takes_every_flag_of_every_packaged_recipe(model: Path) -> None:
    python = os.environ.get("EVIGRAPH_TEST_VLLM_PYTHON")
    if not python:
        pytest.skip("set EVIGRAPH_TEST_VLLM_PYTHON to an interpreter that has vLLM")
    recipes = packaged_recipes()
    # The engine's arguments look their model up, so a folder replaces each.
    commands = [render_flags(dict(recipe.flags) | {"model": str(model)}) for recipe in recipes]
    parsed = subprocess.run(
        [python, "-c", PARSE, json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": "", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert parsed.returncode == 0, parsed.stderr[-2000:]
    assert json.loads(parsed.stdout.splitlines()[-1]) == [
        [max(recipe.gpus, 1), recipe.flags["max-model-len"], recipe.flags["max-num-seqs"]]
        for recipe in recipes
    ]
