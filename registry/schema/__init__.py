"""What the database holds beside its tables: views, triggers, audiences and roles."""
