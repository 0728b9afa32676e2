"""Shared code of nodes that are defined by a table of calls.

See docs/design/messages.md#services-without-a-connector.
"""
