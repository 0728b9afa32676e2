"""Imports the service for forked processes and keeps its objects out of every later collection."""

import gc

import steward.app
import steward.cli.run
import steward.cli.running
import steward.cli.sandbox
import steward.cli.serve
import steward.fake_platforms.application  # noqa: F401
from steward.fake_platforms.seed import private_key

private_key(1)  # of the usual seed: to work it out takes most of the time in which fake platforms start
gc.freeze()
