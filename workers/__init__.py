"""Workers: they claim shards, score them with a model and store the results. Imports the registry, never the web."""
