"""Batched inference with DeepLabV3-ResNet50: how outputs get to the host."""
