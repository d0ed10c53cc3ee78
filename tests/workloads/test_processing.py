"""What the host does with logits, beside the same by other means."""

from __future__ import annotations

import zlib

import pytest

from workloads.parameters import Parameters

pytestmark = pytest.mark.torch

PARAMETERS = Parameters(batch_size=2, image_size=32, steps=1, warmup=1)


def test_class_map_confidence_and_entropy() -> None:
    import torch

    from workloads.ladders.d2h._processing import CLASSES, Results, process_logits

    generator = torch.Generator().manual_seed(3)
    logits = 4 * torch.randn(2, CLASSES, 32, 32, generator=generator)
    logits[0, 5, 0, 0] = logits[0, 7, 0, 0] = 99  # of equals the first
    results = Results.empty(PARAMETERS, compare=True)

    classes = process_logits(logits, 1, results)

    assert torch.equal(classes, logits.argmax(dim=1).to(torch.uint8))
    assert classes[0, 0, 0] == 5
    probability = logits.double().softmax(dim=1)
    confidence = probability.amax(dim=1).mean(dim=(1, 2))
    entropy = -(probability * probability.clamp(min=1e-300).log()).sum(dim=1).mean(dim=(1, 2))
    torch.testing.assert_close(results.confidence[1].double(), confidence, rtol=1e-5, atol=0)
    torch.testing.assert_close(results.entropy[1].double(), entropy, rtol=1e-5, atol=0)
    assert results.checksum[1].tolist() == [zlib.crc32(image.numpy()) for image in logits]
    assert not results.confidence[0].any()


def test_counts_and_compressed_size() -> None:
    import torch

    from workloads.ladders.d2h._processing import Results, process_classes

    classes = torch.zeros(2, 32, 32, dtype=torch.uint8)
    classes[1, :4] = 20
    results = Results.empty(PARAMETERS, compare=False)

    process_classes(classes, 0, results)

    assert results.pixels[0].nonzero().tolist() == [[0, 0], [1, 0], [1, 20]]
    assert results.pixels[0, 1, 20] == 4 * 32
    assert all(0 < stored < 32 * 32 / 10 for stored in results.stored[0].tolist())
    assert len(results.classes) == 0  # kept for comparison only


def test_parts_of_a_batch_give_what_the_batch_gives() -> None:
    import torch

    from workloads.ladders.d2h._processing import CLASSES, Results, process_classes, process_logits

    logits = torch.randn(2, CLASSES, 32, 32, generator=torch.Generator().manual_seed(3))
    whole, parts = (Results.empty(PARAMETERS, compare=True) for _ in range(2))
    process_classes(process_logits(logits, 1, whole), 1, whole)
    for first in (1, 0):
        part = logits[first : first + 1]
        process_classes(process_logits(part, 1, parts, first), 1, parts, first)

    for name, value in vars(whole).items():
        assert torch.equal(getattr(parts, name), value), name


def test_a_buffer_is_free_when_all_its_parts_have_been_read() -> None:
    import queue

    import torch

    from workloads.ladders.d2h._workers import Buffers, OutputProcesses

    buffers = Buffers((20, 3), torch.float32, 2)
    idle = OutputProcesses(0, print, ())
    for step in range(3):  # more often than there are buffers
        index = buffers.take(idle)
        parts = buffers.parts(step, index)
        assert [(part.step, part.buffer, part.first) for part in parts] == [
            (step, index, 0), (step, index, 8), (step, index, 16),
        ]  # fmt: skip
        assert [len(buffers.images(part)) for part in parts] == [8, 8, 4]
        other = buffers.take(idle)
        for part in parts[:-1]:
            buffers.give_back(part)
        with pytest.raises(queue.Empty):
            buffers._free.get(timeout=0.05)
        buffers.give_back(parts[-1])
        for part in buffers.parts(step, other):
            buffers.give_back(part)


def test_slices_of_a_batch() -> None:
    from workloads.ladders.d2h.d2h_slices import slices

    assert slices(64) == [32, 16, 8, 8]
    assert slices(10) == [5, 3, 1, 1]
    assert slices(2) == [1, 1]
    assert slices(1) == [1]


def test_the_device_normalises_as_the_host_does() -> None:
    import numpy as np
    import torch

    from workloads.data import Normaliser, image, normalise

    for size in (32, 33, 100):
        pixels = image(7, size, seed=1)
        assert pixels.shape == (3, size, size)
        on_device = Normaliser(torch.device("cpu"))(torch.from_numpy(pixels)[None])[0]
        values = normalise(pixels)
        assert torch.equal(on_device, torch.from_numpy(values))
        place = np.zeros((2, 3, size, size), np.float32)
        assert normalise(pixels, out=place[1]).base is not None
        assert (place[1] == values).all()


def test_batches_a_few_steps_apart_differ() -> None:
    """So that a buffer that was not filled again is noticed, whatever the size of the pool."""
    from workloads.data import Windows, window_positions
    from workloads.device import HostDevice

    for batch_size in (1, 2, 64):
        parameters = Parameters(batch_size=batch_size, image_size=32)
        starts = [step * 37 % window_positions(parameters) for step in range(33)]
        assert len(set(starts)) == len(starts)
    windows = Windows(Parameters(batch_size=2, image_size=32), HostDevice(), on_device=False)
    assert windows[8].shape == (2, 3, 32, 32)
    assert not (windows[0] == windows[8]).all()
