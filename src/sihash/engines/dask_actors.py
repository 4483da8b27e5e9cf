"""The actors on Dask workers, and how to tell that one is gone."""

from __future__ import annotations

import time
from itertools import count
from math import inf
from typing import Any

from sihash.engines.partitioned_rows import Call, RowsLost
from sihash.engines.worker import Failure, Part

SILENT_SECONDS = 2  # seconds until the scheduler is asked whether a silent worker is still there
HIRE_SECONDS = 60  # for a new actor: its worker may have to import this package first


class DaskActors:
    """One actor a part, at places 0, 1, …; shared by all rows that were derived from each other.

    ``gone`` are the places whose worker does not answer any more.
    """

    def __init__(self, client: Any, addresses: list[str]) -> None:
        self.client = client
        self.addresses = list(addresses)
        self.why: Exception | None = None  # the last sign of a loss
        self.actors = self._hire(addresses)
        self.gone: set[int] = set()
        self._numbers = count()
        self._forgotten: list[list[int]] = [[] for _ in addresses]

    def _hire(self, addresses: list[str]) -> list[Any]:
        """An actor on each of these workers, with as many threads as the worker has."""
        n_threads = self.client.nthreads()
        with self.client.as_current():  # an actor belongs to the client that is current where it is made
            futures = [
                self.client.submit(
                    Part,
                    n_threads.get(address, 1),
                    actor=True,
                    workers=[address],
                    allow_other_workers=False,
                    pure=False,
                )
                for address in addresses
            ]
            return [self._hired(address, future) for address, future in zip(addresses, futures, strict=True)]

    def _hired(self, address: str, future: Any) -> Any:
        try:
            return self._patiently(future, address, HIRE_SECONDS)
        except OSError as error:
            self._note(error)
            raise RowsLost(f"The Dask worker at {address} does not answer.") from self.why

    def _patiently(self, future: Any, address: str, seconds: float = inf) -> Any:
        """What a future, or an actor, says; a TimeoutError if its worker is gone, or after the timeout.

        A connection to a worker that is gone is tried for long, but the scheduler knows.
        """
        last = time.monotonic() + seconds
        while True:
            had_failed = _has_failed(future)  # before: else it may come just after the end of our patience
            try:
                return future.result(timeout=SILENT_SECONDS)
            except Exception:
                if had_failed or address not in self.client.nthreads() or time.monotonic() > last:
                    raise

    def replace(self, place: int) -> None:
        """Another worker for a part: of those that are there, the one that holds the fewest."""
        gone = {self.addresses[k] for k in self.gone}  # the scheduler may not know yet
        for _ in range(HIRE_SECONDS):
            held = {address: 0 for address in self.client.nthreads() if address not in gone}
            if held:
                break
            time.sleep(1)  # a nanny starts a lost worker again
        else:
            raise ConnectionError("All Dask workers are gone; start some, and call again.")
        for k, address in enumerate(self.addresses):
            if k not in self.gone and address in held:
                held[address] += 1
        address = min(held, key=lambda address: held[address])
        (self.actors[place],) = self._hire([address])
        self.addresses[place] = address
        self.gone.discard(place)

    # Rows have numbers; the actors let go of those that nobody here needs any more.

    def new_number(self) -> int:
        return next(self._numbers)

    def forget(self, number: int) -> None:
        for own in self._forgotten:
            own.append(number)

    def forgotten(self, place: int) -> list[int]:
        """Numbers that the actor at this place has not been told of yet."""
        numbers, self._forgotten[place] = self._forgotten[place], []
        return numbers

    # Messages.

    def call(self, places: list[int], method: str, calls: list[Call]) -> list[Any]:
        """What the actors at these places answer, side by side; None from one that is gone."""
        answers = [self._start(place, method, call) for place, call in zip(places, calls, strict=True)]
        results = [self._wait(place, answer) for place, answer in zip(places, answers, strict=True)]
        for result in results:
            if isinstance(result, Failure):
                raise result.error
        return results

    def _start(self, place: int, method: str, call: Call) -> Any:
        if place in self.gone:
            return None
        try:
            return getattr(self.actors[place], method)(*call)
        except RuntimeError as error:  # "Worker holding Actor was lost"
            return self._lose(place, error)

    def _wait(self, place: int, answer: Any) -> Any:
        if answer is None:
            return None
        try:
            return self._patiently(answer, self.addresses[place])
        except Exception as error:  # failures of functions come as results, so this is the loss of the worker
            return self._lose(place, error)

    def _lose(self, place: int, why: Exception) -> None:
        self.gone.add(place)
        self._note(why)

    def _note(self, error: Exception) -> None:
        """What an error said, not the error: its traceback would keep rows alive that nobody needs."""
        self.why = ConnectionError(f"{type(error).__name__}: {error}")

    def wait_for(self, tasks: list[tuple[int, Any]]) -> None:
        """Wait for Dask tasks that only the worker at their place can do."""
        for place, task in tasks:
            if place not in self.gone:
                try:
                    self._patiently(task, self.addresses[place])
                except TimeoutError as error:
                    if self.addresses[place] in self.client.nthreads():
                        raise  # of what the task does
                    self._lose(place, error)


def _has_failed(future: Any) -> bool:
    """Whether asking again is no use. An actor's answer is here once it is done, a future's on its way."""
    return future.done() and getattr(future, "status", "error") in ("error", "cancelled")
