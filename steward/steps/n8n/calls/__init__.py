"""Shared code of nodes that are tables of calls.

See docs/design/messages.md#services-without-a-connector.
"""
