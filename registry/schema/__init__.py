"""The parts of the database other than its tables: views, triggers, audiences and roles."""
