"""Results to and from other programs: exports, tables, uploads, tasks of lm-evaluation-harness."""
