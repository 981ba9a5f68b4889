"""What the database holds beside its tables: views, triggers, audiences, roles, and the guard of public SQL."""
