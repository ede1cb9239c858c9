"""Tests of features, pairs and triples."""
