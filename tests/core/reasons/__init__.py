"""Tests of the reasons of jobs that wait, a file for each module; the sentences are in tests/scenarios."""
