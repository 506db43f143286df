"""Figures of the HOPE plugin."""
