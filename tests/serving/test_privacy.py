from __future__ import annotations

import os
import subprocess
import sys

SCRIPT = """
from serving.policy.privacy import switch_off_telemetry

switch_off_telemetry()

from chromadb.config import Settings
from langsmith.utils import tracing_is_enabled
from langchain_core.callbacks.manager import CallbackManager

assert not tracing_is_enabled()
assert CallbackManager.configure().handlers == []
assert not Settings().anonymized_telemetry
"""


def test_telemetry_is_off_whatever_the_environment_says() -> None:
    names = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")
    environment = {
        **os.environ,
        **dict.fromkeys(names, "true"),
        "LANGSMITH_API_KEY": "a-key",
        "ANONYMIZED_TELEMETRY": "True",
    }
    subprocess.run([sys.executable, "-c", SCRIPT], env=environment, check=True, timeout=120)
