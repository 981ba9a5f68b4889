"""Workers: they claim shards, score them with a model and store what came out. Imports the registry, never the web."""
