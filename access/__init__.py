"""Who may use the service and the pages: users, sessions, connections."""
