"""What nodes that are tables of calls share.

See docs/design/messages.md#services-without-a-connector.
"""
