"""One file a revision; a table is changed by a further one."""
