"""The database besides its tables: views, triggers, audiences and roles."""
