"""What timelines call their lanes and the kinds of causes of idle time."""

from __future__ import annotations

from analysis.words import cause_text

_CALLS = {"osrt": "OS runtime call", "cuda_api": "CUDA call"}

#: Kinds of causes of idle time, as headings.
CAUSE_KINDS = {
    cause: cause_text(cause, _CALLS.get(cause))
    for cause in ("host", "osrt", "cuda_api", "launch", "queued", "overhead", "unknown")
}

#: Lanes of a timeline.
LANE_KINDS = {
    "kernels": "kernels",
    "graphs": "graphs",
    "d2h": "copies d2h",
    "h2d": "copies h2d",
    "d2d": "copies d2d",
    "p2p": "copies p2p",
    "other": "other copies",
    "memsets": "memsets",
    "nvtx": "NVTX ranges",
    "cuda": "CUDA calls",
    "osrt": "OS runtime calls",
}
