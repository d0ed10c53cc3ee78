"""The pool of pinned batches: what is in a buffer, and when it may be filled again."""

from __future__ import annotations

import dataclasses

import pytest

from workloads.parameters import Parameters

pytestmark = pytest.mark.torch

SMALL = Parameters(batch_size=2, image_size=32, steps=12, warmup=0, workers=1, device="cpu")


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_those_of_the_loader(*, raw: bool, workers: int) -> None:
    import torch

    from workloads.batch_pool import BatchPool
    from workloads.data import loader
    from workloads.device import HostDevice
    from workloads.session import Session

    parameters = dataclasses.replace(SMALL, workers=workers)
    device = HostDevice()
    session = Session(parameters, device)
    expected = iter(loader(parameters, workers=0, raw=raw))
    with BatchPool(session, device.current_stream(), raw=raw) as pool:
        found = [[tensor.clone() for tensor in next(pool)] for _ in range(SMALL.steps)]

    for images, labels in found:
        expected_images, expected_labels = next(expected)
        assert images.dtype == expected_images.dtype
        assert torch.equal(images, expected_images)
        assert torch.equal(labels, expected_labels)


def test_a_buffer_is_filled_again_only_behind_its_copy() -> None:
    """The copies are asked for and not waited for; they are done as late as CUDA allows."""
    import torch

    from workloads.batch_pool import BatchPool
    from workloads.data import batches_on_their_way, loader
    from workloads.device import HostDevice
    from workloads.session import Session

    device = HostDevice()
    stream = device.stream()
    session = Session(SMALL, device)
    copies = []
    with BatchPool(session, stream) as pool, device.use(stream):
        for _ in range(3 * batches_on_their_way(SMALL)):
            images, _labels = next(pool)
            copies.append(device.upload(images, non_blocking=True))
            done = [not copy.isnan().any() for copy in copies]
            # The one before the last was waited for: its buffer was needed.
            assert done[:-2] == [True] * (len(done) - 2)
            assert not done[-1]

    expected = iter(loader(SMALL, workers=0))
    device.synchronize()
    for copy in copies:
        assert torch.equal(copy, next(expected)[0])


def test_what_a_loader_has_ready_can_be_thrown_away() -> None:
    import torch

    from workloads.data import discard, loader

    batches = iter(loader(SMALL, workers=1))
    first = next(batches)[0]
    discard(batches, SMALL)
    images = next(batches)[0]

    expected = list(loader(dataclasses.replace(SMALL, steps=99), workers=0))
    assert torch.equal(first, expected[0][0])
    assert torch.equal(images, expected[1 + 2 + 1][0])
