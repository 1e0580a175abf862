"""Nothing is sent to a host that the user did not name."""

from __future__ import annotations

import os

_SWITCHED_OFF = {
    "LANGSMITH_TRACING": "false",
    "LANGSMITH_TRACING_V2": "false",
    "LANGCHAIN_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "ANONYMIZED_TELEMETRY": "False",  # Chroma
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_enable_metrics_collection": "0",
}


def switch_off_telemetry() -> None:
    """Switch off every dependency's telemetry and tracing, whatever the environment says.

    Call it before the first import of a dependency: some read these variables only once.
    """
    os.environ.update(_SWITCHED_OFF)
