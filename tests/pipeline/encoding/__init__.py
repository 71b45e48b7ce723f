"""Tests of `syncline.pipeline.encoding`."""
