"""``python -m analysis`` is ``nsyslab``."""

from analysis.cli import main

main()
