"""Running a deployment: migration, backup, moving, maintenance, retention, the doctor."""
