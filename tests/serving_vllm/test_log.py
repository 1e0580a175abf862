"""Logs as vLLM 0.32 writes them, shortened."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.vllm_server.log import error_line, last_line

MEMORY = """\
$ python -m vllm.entrypoints.openai.api_server
(APIServer pid=25526) INFO 11-21 06:38:29 [model.py:733] Resolved architecture: LlamaForCausalLM
(APIServer pid=25526) WARNING 11-21 06:38:29 [system_utils.py:255] errors like `OSError: [Errno 24]` may come
(Worker pid=25553) ERROR 11-21 06:38:52 [multiproc_executor.py:1063] ValueError: Available memory is 10 GiB
(EngineCore pid=25540) Process EngineCore:
(EngineCore pid=25540) RuntimeError: Worker failed with error 'Available memory is 10 GiB'
(APIServer pid=25526)   File "utils.py", line 1431, in wait_for_engine_startup
(APIServer pid=25526)     raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 2 leaked objects
"""
FLAG = """\
usage: api_server.py [-h]
                     [--enable-log-requests | --no-enable-log-requests]
api_server.py: error: unrecognized arguments: --foo
"""
LENGTH = """\
    s.__pydantic_validator__.validate_python(ArgsKwargs(args, kwargs), self_instance=s)
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (100000) is greater than the derived max_model_len (8192).
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
GPU = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n[rank0]:[W1121] destroyed\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (MEMORY, "RuntimeError: Worker failed with error 'Available memory is 10 GiB'"),
        (FLAG, "api_server.py: error: unrecognized arguments: --foo"),
        (
            LENGTH,
            "Value error, User-specified max_model_len (100000) is greater than"
            " the derived max_model_len (8192).",
        ),
        (GPU, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB."),
        ("(EngineCore pid=1) INFO 11-21 06:38:29 [a.py:1] Loading\n\n", "Loading"),
        ("", ""),
    ],
)
def test_the_error_is_the_cause_and_not_what_follows_from_it(tmp_path: Path, text: str, line: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    assert error_line(log) == line


def test_the_last_line_is_without_prefix_colour_and_banner(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "$ python -m vllm\n(A pid=1) \x1b[32mINFO\x1b[0m 11-21 06:38:29 [model.py:1] Loading\n"
        "(A pid=1) INFO 11-21 06:38:29 [u.py:7]  \u2584\u2584 \u2584\u2588\n"
    )
    assert last_line(log) == "Loading"


def test_the_command_is_no_news(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("$ python -m vllm\n")
    assert last_line(log) == ""
