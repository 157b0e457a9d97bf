"""Tests of the files that deployments use."""
