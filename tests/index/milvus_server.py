"""A real Milvus server on free ports of this machine, with a password, that tests may stop and start."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from milvus import MilvusServer, MilvusServerConfig

from ports import free_port

TOKEN = "root:Milvus"  # the account of a new server


class Server:
    """``programs`` is a folder that keeps the unpacked programs from one run to the next."""

    def __init__(self, folder: Path, programs: Path) -> None:
        (folder / "bin").symlink_to(programs)
        self._folder = folder
        self._ports = {
            name: free_port() for name in MilvusServerConfig().configurable_items if "port" in name
        }
        self._write_etcd_settings(free_port())
        self.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._ports['proxy_port']}"

    def start(self, **settings: object) -> None:
        """``settings`` are those of Milvus, with __ for the dots in their names."""
        self._server = MilvusServer(_Config(**self._ports), wait_for_started=False)
        self._server.webservice_port = free_port()
        self._server.set_base_dir(str(self._folder))
        self._server.config.set("authorization_enabled", True)
        # It is killed, and the next one waits so many seconds for it to come back.
        self._server.config.set("common.session.ttl", 5)
        for name, value in settings.items():
            self._server.config.set(name.replace("__", "."), value)
        os.environ["ETCD_CONFIG_PATH"] = str(self._folder / "etcd.yaml")
        try:
            self._server.start()
        finally:
            del os.environ["ETCD_CONFIG_PATH"]
        self._server.wait_started(60_000)

    def stop(self) -> None:
        """At once: it would take its time, and has to bear this too."""
        process = self._server.server_proc
        process.kill()
        process.wait(60)
        self._server.stop()

    def _write_etcd_settings(self, peer_port: int) -> None:
        """The etcd inside of it would take ports of its own choice, even if they are not free."""
        peer, client = f"http://127.0.0.1:{peer_port}", f"http://127.0.0.1:{self._ports['etcd_port']}"
        (self._folder / "etcd.yaml").write_text(
            f"name: default\nlisten-peer-urls: {peer}\ninitial-advertise-peer-urls: {peer}\n"
            f"initial-cluster: default={peer}\n"
            f"listen-client-urls: {client}\nadvertise-client-urls: {client}\n"
        )


class _Config(MilvusServerConfig):
    def try_bind_port(self, port: int) -> socket.socket:
        return socket.create_server(("127.0.0.1", port))  # also just after a server that was stopped
