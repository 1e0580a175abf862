"""An emulator as a separate process: `python -m tests.serving.batches.emulator openai --ledger FILE`.

The first line that it prints is its address. It is steered by requests:

- `POST /emulator/advance` with `{"seconds": 600}` moves its clock;
- `POST /emulator/faults` with fields of `Faults` sets what goes wrong;
- `GET /emulator/state` says what it holds.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from pathlib import Path

from tests.serving.batches.emulators.bookkeeping import Emulator

EMULATORS = {
    "openai": "openai:OpenAIEmulator",
    "anthropic": "anthropic:AnthropicEmulator",
    "google_genai": "google_genai:GoogleEmulator",
    "deepseek": "deepseek:DeepSeekEmulator",
    "vllm": "vllm:VllmEmulator",
}


def emulator(
    provider: str, ledger: Path | None = None, *, step: float = 0.0, work_s: float = 600.0
) -> Emulator:
    module, _, name = EMULATORS[provider].partition(":")
    kind = getattr(importlib.import_module(f"tests.serving.batches.emulators.{module}"), name)
    made: Emulator = kind(ledger, step=step, work_s=work_s)
    return made


async def _serve(options: argparse.Namespace) -> None:
    one = emulator(options.provider, options.ledger, step=options.step, work_s=options.work)
    async with one.serving(options.port):
        sys.stdout.write(f"{one.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("provider", choices=EMULATORS)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--step", type=float, default=300.0, help="seconds that pass with every look")
    parser.add_argument("--work", type=float, default=600.0, help="seconds that the rows of a batch take")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
