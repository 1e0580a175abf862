"""Prompts as files, and their loader."""

from prompts.loader import Prompt, PromptError, PromptSet, load_prompts

__all__ = ("Prompt", "PromptError", "PromptSet", "load_prompts")
