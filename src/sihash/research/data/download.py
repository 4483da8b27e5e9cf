"""Downloads: checked against a SHA-256, with progress, and taken up again where they broke off."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sihash._typing import Progress

_TIMEOUT, _BLOCK = 30, 1 << 16


@dataclass(frozen=True)
class Remote:
    """A file to be had at any of ``urls``; ``file`` is its place below the download folder."""

    file: str
    sha256: str
    urls: tuple[str, ...]


def fetch_all(remotes: tuple[Remote, ...], folder: Path, progress: Progress | None = None) -> None:
    """Download what is not there yet. Raises OSError, with the reason, if a file cannot be had anywhere."""
    for remote in remotes:
        _fetch(remote, folder, progress)


def _fetch(remote: Remote, folder: Path, progress: Progress | None) -> None:
    import pooch  # these two only here: importing them takes longer than most commands
    import requests

    pooch.get_logger().setLevel("ERROR")
    problems = []
    for url in remote.urls:
        try:
            path = folder / remote.file
            pooch.retrieve(
                url,
                known_hash=f"sha256:{remote.sha256}",
                fname=path.name,
                path=path.parent,
                downloader=_Resuming(path, progress),
            )
            return
        except requests.ConnectionError:
            problems.append(f"no connection to {url.split('/')[2]}")
        except (OSError, ValueError) as error:  # pooch's word for a wrong checksum is ValueError
            problems.append(str(error))
    raise OSError("; ".join(dict.fromkeys(problems)))


@dataclass(frozen=True)
class _Resuming:
    """A downloader for pooch that keeps what has arrived in ``<file>.part`` and asks for the rest."""

    path: Path
    progress: Progress | None

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:
        import requests

        part = self.path.with_name(self.path.name + ".part")
        have = part.stat().st_size if part.exists() else 0
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if response.status_code == 416:  # nothing is left to send
                os.replace(part, output_file)
                return
            response.raise_for_status()
            resumed = response.status_code == 206
            total = int(response.headers.get("content-length", 0)) + (have if resumed else 0)
            with open(part, "ab" if resumed else "wb") as file:
                for block in response.iter_content(_BLOCK):
                    file.write(block)
                    if self.progress:
                        self.progress("download", file.tell() / total if total else 0.0)
        if total and part.stat().st_size < total:
            raise OSError(
                f"{url} broke off after {part.stat().st_size:,} of {total:,} bytes; try again to go on"
            )
        os.replace(part, output_file)  # pooch compares the checksum, and throws a wrong file away
