"""Which sentences of a note are evidence: votes, rankers, people."""
