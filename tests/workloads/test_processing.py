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

    assert results.pixels[0].nonzero().flatten().tolist() == [0, 20]
    assert results.pixels[0, 20] == 4 * 32
    assert 0 < results.stored[0] < classes.numel() / 10
    assert len(results.classes) == 0  # kept for comparison only


def test_the_device_normalises_as_the_host_does() -> None:
    import torch

    from workloads.data import Normaliser, image, normalise

    for size in (32, 33, 100):
        pixels = image(7, size, seed=1)
        assert pixels.shape == (3, size, size)
        on_device = Normaliser(torch.device("cpu"))(torch.from_numpy(pixels)[None])[0]
        assert torch.equal(on_device, torch.from_numpy(normalise(pixels)))


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
