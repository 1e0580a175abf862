"""What every node needs: its specification, its context, records, prompts that fit."""
