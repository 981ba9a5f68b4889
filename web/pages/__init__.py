"""The pages, a module for each subject. Every page works without scripts; a script only saves reloads."""
