"""Imports the service for forked processes and keeps its objects out of every later collection."""

import gc

import steward.app
import steward.cli.run
import steward.cli.running
import steward.cli.sandbox
import steward.cli.serve
import steward.fake_platforms.application  # noqa: F401

gc.collect()
gc.freeze()
