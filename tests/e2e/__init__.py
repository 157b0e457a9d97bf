"""Tests of the whole product from outside."""
