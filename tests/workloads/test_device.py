"""The CPU's stand-in for streams: copies happen as late as CUDA allows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from analysis.errors import InputError

if TYPE_CHECKING:
    from workloads.device import HostDevice

pytestmark = pytest.mark.torch


@pytest.fixture
def device() -> HostDevice:
    from workloads.device import HostDevice

    return HostDevice()


def test_an_upload_in_another_stream_is_not_there_before_it_is_waited_for(
    device: HostDevice,
) -> None:
    import torch

    source, stream = torch.arange(3.0), device.stream()
    with device.use(stream):
        copy = device.upload(source, non_blocking=True)

    assert copy.isnan().all()
    device.current_stream().wait_stream(stream)
    assert copy.tolist() == [0, 1, 2]


def test_an_upload_in_the_stream_of_the_kernels_is_there_at_once(device: HostDevice) -> None:
    import torch

    assert device.upload(torch.arange(3.0), non_blocking=True).tolist() == [0, 1, 2]


def test_a_pinned_source_that_is_overwritten_too_early_spoils_the_copy(device: HostDevice) -> None:
    import torch

    source, stream = torch.arange(3.0), device.stream()
    with device.use(stream):
        copy = device.upload(source, non_blocking=True)
    source.fill_(9)
    device.synchronize()

    assert copy.tolist() == [9, 9, 9]


def test_a_download_is_there_after_its_event_and_not_before(device: HostDevice) -> None:
    import torch

    target, event, later = torch.zeros(2), device.event(), device.event()
    result = torch.ones(2)
    device.download_into(target, result, non_blocking=True)
    event.record(device.current_stream())
    result.fill_(2)  # a kernel behind the copy, in the same stream
    other = torch.zeros(2)
    device.download_into(other, result, non_blocking=True)
    later.record(device.current_stream())

    assert target.tolist() == [0, 0]
    waiter = threading.Thread(target=event.synchronize)
    waiter.start()
    waiter.join()
    assert target.tolist() == [1, 1]
    assert other.tolist() == [0, 0]
    later.synchronize()
    assert other.tolist() == [2, 2]


def test_an_event_stands_for_what_was_there_when_it_was_last_recorded(device: HostDevice) -> None:
    import torch

    stream, event = device.stream(), device.event()
    event.synchronize()  # never recorded: nothing to wait for, as in CUDA
    event.record(stream)
    buffer = torch.zeros(1)
    with device.use(stream):
        device.upload_into(buffer, torch.ones(1))
    device.current_stream().wait_event(event)
    assert buffer.item() == 0
    event.record(stream)
    device.current_stream().wait_event(event)
    assert buffer.item() == 1


def test_blocking_copies_block(device: HostDevice) -> None:
    import torch

    stream, target = device.stream(), torch.zeros(2)
    with device.use(stream):
        assert device.upload(torch.ones(2)).tolist() == [1, 1]
        device.download_into(target, torch.ones(2))
    assert target.tolist() == [1, 1]


def test_no_gpu_says_what_can_be_done_without() -> None:
    import torch

    from workloads.device import open_device

    if torch.cuda.is_available():
        with pytest.raises(InputError, match="there is no cuda:99"):
            open_device("cuda:99")
        return
    with pytest.raises(InputError, match="no CUDA GPU can be used") as caught:
        open_device("cuda")
    assert "--device cpu" in (caught.value.hint or "")
