"""For all tests: nothing leaves this machine, and telemetry is off before anything is imported."""

from __future__ import annotations

from serving.privacy import switch_off_telemetry

switch_off_telemetry()
