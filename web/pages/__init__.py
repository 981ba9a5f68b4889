"""The pages, a module for each subject. Every page reads and sorts without scripts; a script saves reloads."""
