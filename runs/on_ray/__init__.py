"""Cases on a Ray cluster: workers run them, and one process, the driver, alone writes the run.

On the driver `cases` hands cases out and begins those of a lost worker again, `workforce` asks Ray for
workers, keeps track of them, and divides the user's limits among them, `member` talks to one of them, and
`cluster` is where they run. On each node of the cluster Ray starts an `actor`, in which a `worker` runs the
cases that it is sent.
"""
