"""Names that break what prints or parses them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.traces.expect import Expected, device, devices, gap, host, launch, osrt, overhead
from tests.traces.traps.gaps import kernel_a, kernel_b
from tests.traces.traps.registry import trap

if TYPE_CHECKING:
    from tests.traces.writer import Text, TraceWriter

#: What stands in the file, and what a report says.
AWKWARD: tuple[tuple[Text, str], ...] = (
    ('it\'s "quoted", `so` $(called); DROP TABLE StringIds --', ""),
    ("two\nlines\r\nand\ta tab", ""),
    ("nul\0inside", ""),
    ("</script><script>alert(1)</script><!-- & &amp; -->", ""),
    (b"latin-1: caf\xe9", "latin-1: caf\\xe9"),
    (b"\xff\xfe cut in a character: \xe2\x82", "\\xff\\xfe cut in a character: \\xe2\\x82"),
    ("\x1b[31mred\x1b[0m \u202eright to left, \u00e9\u4e2d\U0001f525", ""),
    ("a / b | c, d; *e* _f_ #g [h](i)", ""),
    ("", ""),
    (" ", ""),
    ("x" * 5000, ""),
)


def shown(written: Text, said: str) -> str:
    """What a report says of a name."""
    return said if isinstance(written, bytes) else written


def _in_ranges(w: TraceWriter, *, registered: bool) -> Expected:
    kernel_a(w)
    parts = []
    at = 200
    # Four nanoseconds each, within the host code of the gap.
    for written, said in AWKWARD:
        w.push_pop(at, at + 4, written, registered=registered)
        if shown(written, said):
            parts.append(host(4, shown(written, said)) | {"name": shown(written, said)})
        else:
            # An empty name is a name; what a report shows in its place is its own business.
            parts.append({"cause": "host", "ns": 4})
        at += 4
    kernel_b(w)
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                gaps=[gap(200, 300, *parts, host(250 - at), launch(50))],
            )
        )
    )


@trap()
def awkward_names_of_ranges(w: TraceWriter) -> Expected:
    """Quotes, newlines, NULs, markup, escapes and bytes that are not UTF-8, in the rows."""
    return _in_ranges(w, registered=False)


@trap()
def awkward_names_in_string_ids(w: TraceWriter) -> Expected:
    """The same as registered strings."""
    return _in_ranges(w, registered=True)


@trap(gpus=False)
def awkward_names_of_everything_else(w: TraceWriter) -> Expected:
    """Kernels, calls, threads, processes, GPUs and overhead."""
    bad, said = b"<b>\xff\0</script>'\"\n", "<b>\\xff\0</script>'\"\n"
    w.gpu(0, name=bad)
    w.cuda_device(gpu_id=0, ordinal=0)
    w.process(bad)
    w.thread_name(bad)
    kernel_a(w)
    w.osrt(205, 215, bad)
    w.overhead(220, 225, bad)
    w.kernel(300, 400, name=bad, call=w.api(250, 260, bad))
    return Expected(
        devices(
            device(
                (100, 400),
                compute=200,
                idle=100,
                name=said,
                gaps=[gap(200, 300, host(35), osrt(10, said), overhead(5, said), launch(50, said))],
            )
        )
    )
