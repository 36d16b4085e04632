"""Where a run's time goes."""

import time


class Timer:
    """Seconds by name: ``with timer.time("environment"): ...``. A name within itself would count twice."""

    def __init__(self):
        self._laps: dict[str, _Laps] = {}

    def time(self, name: str) -> "_Laps":
        """A context whose seconds are added to those of ``name``."""
        laps = self._laps.get(name)
        if laps is None:
            laps = self._laps[name] = _Laps()
        return laps

    def read_and_clear(self) -> dict[str, float]:
        """The seconds of every name ever timed, since the last reading."""
        read = {name: laps.seconds for name, laps in self._laps.items()}
        for laps in self._laps.values():
            laps.seconds = 0.0
        return read


class _Laps:
    __slots__ = ("_start", "seconds")

    def __init__(self):
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start
