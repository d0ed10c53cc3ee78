"""One injected bottleneck per program, or one suspect that is innocent; what is to be found.

The ranges are called alpha, beta and gamma: names give nothing away.
"""
