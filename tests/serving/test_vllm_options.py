"""What vLLM's engine is started with, without vLLM."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from serving.backends import connect
from serving.backends.vllm_offline import (
    OPTIONS_VARIABLE,
    default_options,
    locate,
    prepare_environment,
    revision,
    user_options,
)
from serving.errors import ModelError
from serving.model_name import parse_model_name
from weights.registry import WeightsError

KNOWN = ("model", "dtype", "max_model_len")


def refused(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    monkeypatch.setenv(OPTIONS_VARIABLE, text)
    with pytest.raises(ModelError) as caught:
        user_options(KNOWN)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text("{}")
    return tmp_path


def test_without_vllm_one_line_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ModelError, match=r"needs vLLM in this environment: pip install 'evigraph\[vllm\]'"):
        connect(parse_model_name("vllm-offline:some/model"))


def test_a_local_folder_is_found(model: Path) -> None:
    assert locate(str(model)) == str(model)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"holds no config\.json"):
        locate(str(tmp_path))


def test_a_path_that_is_not_there_is_no_hub_id(tmp_path: Path) -> None:
    with pytest.raises(WeightsError):
        locate(str(tmp_path / "gone"))


def test_anything_else_is_a_hub_id() -> None:
    assert locate("meta-llama/Llama-3.3-70B-Instruct") == "meta-llama/Llama-3.3-70B-Instruct"


def test_a_local_model_asks_no_hub(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    monkeypatch.setattr(os, "environ", {})
    prepare_environment(str(model))
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    assert os.environ["VLLM_NO_USAGE_STATS"] == os.environ["DO_NOT_TRACK"] == "1"


def test_the_users_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "INFO"})
    prepare_environment("some/model")
    assert (os.environ["HF_HUB_OFFLINE"], os.environ["VLLM_LOGGING_LEVEL"]) == ("1", "INFO")


def test_only_a_cpu_gets_its_own_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    assert "dtype" not in default_options(on_cpu=False)
    assert os.environ == {}
    assert default_options(on_cpu=True)["dtype"] == "bfloat16"
    assert os.environ == {"VLLM_CPU_KVCACHE_SPACE": "4"}


def test_options_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_options(KNOWN) == {}
    monkeypatch.setenv(OPTIONS_VARIABLE, '{"max_model_len": 4096}')
    assert user_options(KNOWN) == {"max_model_len": 4096}


def test_wrong_options_are_refused_with_the_right_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not JSON" in refused(monkeypatch, "max_model_len=4096")
    assert "must be a JSON object" in refused(monkeypatch, "[1]")
    assert "--model does" in refused(monkeypatch, '{"model": "x"}')
    assert "did you mean 'max_model_len'?" in refused(monkeypatch, '{"max_model_length": 1}')


def test_only_options_that_shape_replies_shape_the_revision(model: Path) -> None:
    plain = revision(str(model), None, {})
    assert plain
    assert revision(str(model), None, {"gpu_memory_utilization": 0.5}) == plain
    assert revision(str(model), None, {"dtype": "float32"}).startswith(f"{plain}+")


def test_a_hub_model_is_told_by_its_commit() -> None:
    assert revision("some/model", "abc", {}) == "abc"


PARENT = """
import multiprocessing, os, time
from serving.vllm_guard import end_with_parent, guard_children

def child():
    end_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(600)

if __name__ == "__main__":
    {guard}
    multiprocessing.get_context("spawn").Process(target=child).start()
    time.sleep(600)
"""


def orphan_lives(tmp_path: Path, guard: str, seconds: float) -> bool:
    """Whether a child outlives a parent that is killed, by so many seconds."""
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(guard=guard))
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    try:
        # The child shares the pipe: it closes when the child ends.
        os.set_blocking(parent.stdout.fileno(), False)
        for _ in range(int(10 * seconds)):
            if parent.stdout.read() == b"":
                return False
            time.sleep(0.1)
        return True
    finally:
        parent.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_guarded_engine_ends_with_a_killed_parent(tmp_path: Path) -> None:
    assert not orphan_lives(tmp_path, "guard_children()", seconds=120)


def test_an_engine_of_others_is_left_alone(tmp_path: Path) -> None:
    assert orphan_lives(tmp_path, "pass", seconds=3)
