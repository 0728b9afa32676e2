"""Conditions that are true of every run, by which a statement asks for an index of all automations' runs.

On PostgreSQL the two indexes are partial, so that only such statements use them. Its planner expects a value
that it does not know to be as frequent as the average. For failed runs of an automation without any, it may
walk all runs of the organization in the order of `runs_by_age`, expecting one soon.
See docs/decisions/0325-statements-ask-for-the-indexes-of-all-automations-runs.md.
"""

BY_AGE = "{run}.automation_version > 0"  # the condition of `runs_by_age`
BY_KIND = "{run}.started_by > ''"  # the condition of `runs_by_kind`
