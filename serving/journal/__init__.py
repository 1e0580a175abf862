"""The call journal: nothing that was paid for is asked again."""
