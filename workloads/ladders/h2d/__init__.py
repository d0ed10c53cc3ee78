"""Training ResNet-18: how batches get to the device."""
