"""Questions that a finished run answers without another model call."""
