"""The one place that asks models: client, dispatcher, probe, relay."""
