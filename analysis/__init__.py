"""Post-processing of Nsight Systems reports: where the GPU time went, and why the GPU waited."""

__version__ = "0.1.0"
