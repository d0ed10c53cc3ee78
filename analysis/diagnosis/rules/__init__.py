"""One rule per file; see docs/diagnosis.md. The file's name is the finding's id.

A file defines ``RULE``, and its thresholds as constants with their reason beside. Nothing is
registered: whatever file is here is a rule.
"""
