"""Modules that are loaded before tests fork: all that workers with the fake scorer or a provider need, except torch."""

from importlib import import_module

from sqlalchemy.orm import configure_mappers

for name in (
    "tests.support.worker_process",
    "shuffleboard.cli.database",
    "workers.tasks",
    "celery.bin.celery",
    "registry.sealed.seal",
    "redis",
    "tests.support.provider_worker",
    "workers.providers.openai_api",
    "openai.resources.batches",
    "openai.resources.chat",
    "transformers",
):
    import_module(name)
configure_mappers()
