"""Everything outside the process that is asked: chat models, vLLM, the call journal."""
