"""Schedules of faults of a deployment, drawn from a seed."""

import random
from dataclasses import dataclass, field
from typing import Final

from tests.chaos import trips

# Points at which a worker process causes a fault itself, with their weights. Freezing shows most while a lock is in
# use.
KILLS: Final = {"scoring": 4, "claiming": 3, "storing": 3, "stored": 1, "sealing": 1, "reconciling": 1}
HANGS: Final = {"scoring": 1}
FREEZES: Final = {"scoring": 3, "claiming": 1, "storing": 2, "sealing": 1}

# Faults from outside, with their weights.
ANYWHERE: Final = {
    "worker killed": 3,
    "worker frozen past its lease": 2,
    "worker told to stop": 1,
    "reconciled twice at once": 1,
    "upgraded twice at once": 1,
    "clock set back an hour": 2,
    "another worker on the device": 1,
}
WITH_POSTGRESQL: Final = {
    "PostgreSQL restarted at once": 2,
    "database connections cut": 3,
    "PostgreSQL reports a full disk": 1,
}
WITH_SMALL_DISK: Final = {"PostgreSQL's disk full": 2}
WITH_REDIS: Final = {
    "Redis restarted": 2,
    "Redis flushed": 2,
    "messages doubled": 2,
    "messages reordered": 2,
    "messages lost": 2,
    "messages unreadable": 2,
    "Redis read-only": 2,
    "Redis full": 2,
    "Redis clients killed": 2,
    "Redis silent": 1,
}
WITH_SENTINELS: Final = {"Redis failed over by command": 1, "Redis killed and failed over": 1}
WITH_SQLITE: Final = {"SQLite database full": 3}
UPGRADE: Final = "schema upgraded under running workers"

CLASSES: Final = {
    "kill": "worker killed",
    "freeze": "frozen|hung",
    "restart": "restarted",
    "FLUSHALL": "flushed",
    "read-only": "read-only",
    "out of memory": "Redis full",
    "failover": "failed over",
    "full disk": "disk|database full",
    "clock set back an hour": "clock",
    "two workers on one device": "on the device",
}
"""Classes of faults, each with a pattern of their kinds."""


@dataclass(frozen=True)
class Schedule:
    """A deployment and its faults.

    trips: faults that workers cause themselves, one for each worker process in the order of their start.
    strikes: (seconds after the one before, fault from outside).
    upgrade: whether the database is at the first revision when the workers are started.
    hints: whether the messages of the submission reach Redis; otherwise it is down when the work is queued.
    fails_over: whether Redis has an address that leads to the primary after each failover, and beat runs as well.
    small_disk: whether PostgreSQL is on a disk that can be filled.
    """

    seed: int
    engine: str
    broker: bool = False
    hints: bool = True
    real: bool = False
    upgrade: bool = False
    fails_over: bool = False
    small_disk: bool = False
    workers: int = 3
    shards: int = 16
    seconds_per_prompt: float = 0.05
    trips: tuple[str, ...] = ()
    strikes: tuple[tuple[float, str], ...] = field(default=())

    @property
    def servers(self) -> str:
        """Return the names of its servers."""
        return f"{self.engine} {'and Redis' if self.broker else 'alone'}"

    @property
    def name(self) -> str:
        """Return the name to print."""
        parts = [self.servers]
        parts += ["with the real engine"] if self.real else []
        parts += ["with Sentinels"] if self.fails_over else []
        parts += ["on a small disk"] if self.small_disk else []
        return " ".join(parts + (["from the first schema"] if self.upgrade else []))


DONE: Final = {"KILL": "killed", "STOP": "frozen", "HANG": "hung"}


def kind_of(trip: str) -> str:
    """Return the kind of fault that a trip causes."""
    point, _, name = trip.split(":")
    return f"worker {DONE[name]} {trips.POINTS[point]}"


def _draw(rng: random.Random, table: dict[str, int]) -> str:
    return rng.choices(list(table), list(table.values()))[0]


def _trip(rng: random.Random) -> str:
    name = rng.choices(list(DONE), (7, 2, 1))[0]
    point = _draw(rng, {"KILL": KILLS, "STOP": FREEZES, "HANG": HANGS}[name])
    prompts = {"scoring": rng.randint(2, 14), "sealing": 1, "reconciling": rng.randint(1, 3)}
    return f"{point}:{prompts.get(point, rng.randint(1, 3))}:{name}"


def draw(seed: int, *, trips: int = 10, strikes: int = 7) -> Schedule:
    """Draw the schedule of a seed."""
    rng = random.Random(seed)
    engine, broker = [("postgresql", True), ("sqlite", False), ("postgresql", True), ("postgresql", False)][seed % 4]
    table = dict(ANYWHERE)
    table |= WITH_POSTGRESQL if engine == "postgresql" else WITH_SQLITE
    table |= WITH_REDIS if broker else {}
    fails_over, small_disk = seed % 4 == 2, seed % 4 == 0
    hints = rng.random() < 0.7
    drawn = [_trip(rng) for _ in range(trips)]
    struck = [(rng.uniform(0.3, 1.2), _draw(rng, table)) for _ in range(strikes)]
    upgrade = seed % 3 == 0
    if upgrade:
        struck.insert(rng.randrange(1, 4), (rng.uniform(0.3, 1.2), UPGRADE))
    rare = (WITH_SENTINELS if fails_over else {}) | (WITH_SMALL_DISK if small_disk else {})
    for number, kind in enumerate(rng.sample(list(rare), len(rare))):  # early, since they take seconds
        struck.insert(2 * number + 1, (rng.uniform(0.3, 1.2), kind))
    return Schedule(
        seed,
        engine,
        broker,
        hints=hints,
        upgrade=upgrade,
        fails_over=fails_over,
        small_disk=small_disk,
        seconds_per_prompt=0.15 if rare else 0.05,
        trips=tuple(drawn),
        strikes=tuple(struck),
    )


def short() -> list[Schedule]:
    """Return two schedules with every kind of fault that a signal or a server can cause, for the test suite."""
    kills = tuple(f"{point}:{2 if point == 'scoring' else 1}:KILL" for point in ("scoring", "claiming", "storing"))
    others = ("scoring:3:HANG", "storing:2:STOP", "scoring:6:STOP")
    outside = [UPGRADE, *WITH_REDIS, *WITH_POSTGRESQL, "reconciled twice at once", "upgraded twice at once"]
    rare = [*WITH_SENTINELS, *WITH_SMALL_DISK, "another worker on the device"]
    return [
        Schedule(
            1, "postgresql", broker=True, hints=False, upgrade=True, trips=kills + others, strikes=_evenly(outside)
        ),
        Schedule(
            3,
            "postgresql",
            broker=True,
            fails_over=True,
            small_disk=True,
            seconds_per_prompt=0.15,
            strikes=_evenly(rare),
        ),
        Schedule(
            2,
            "sqlite",
            workers=2,
            shards=8,
            trips=("storing:2:KILL", "claiming:2:KILL", "sealing:1:KILL"),
            strikes=_evenly([*WITH_SQLITE, "worker frozen past its lease", "worker told to stop"]),
        ),
    ]


def _evenly(kinds: list[str]) -> tuple[tuple[float, str], ...]:
    return tuple((0.5, kind) for kind in kinds)


def real() -> Schedule:
    """Return the schedule for the real engine, which cannot cause faults itself."""
    kinds = ["worker killed", "Redis flushed", "worker frozen past its lease", "worker killed", "messages doubled"]
    kinds += ["database connections cut", "worker killed"]
    return Schedule(0, "postgresql", broker=True, real=True, workers=2, strikes=tuple((2.0, kind) for kind in kinds))
