"""Access to the service and the pages: users, sessions, connections."""
