"""Speed and memory, measured as whole processes: `make bench`."""
