"""HTTP by httptools, for connections that may be silent or slow on purpose."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

SILENCE = 20.0  # seconds for a request's head


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which hangs up on a client that does not finish the head of a request."""

    _head_since: float | None = None  # when the head that is being read began

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_since = self.loop.time()

    def on_headers_complete(self) -> None:
        self._head_since = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_timer.cancel()
        super().connection_lost(exc)

    def _await_head(self):
        self._head_since = self.loop.time()
        self._head_timer = self.loop.call_later(SILENCE, self._look)

    def _look(self):
        """Every now and then, so that a request costs no timer of its own."""
        since = self._head_since
        if since is not None and self.loop.time() - since >= SILENCE:
            self.transport.close()
            return
        self._head_timer = self.loop.call_later(SILENCE, self._look)
