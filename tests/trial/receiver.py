"""Takes a shop's webhooks during a trial, on this machine alone."""

import asyncio


class Receiver:
    """A listener that answers 200 to everything and keeps it: headers in lower case, and the body."""

    def __init__(self) -> None:
        self.arrived: list[tuple[dict[str, str], bytes]] = []
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listens on a free port of loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        """Ends listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:]
            pairs = [line.partition(":") for line in head if ":" in line]
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.arrived.append((headers, body))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            pass
        finally:
            writer.close()
