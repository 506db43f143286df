"""Tricks of speed against plain code, end to end."""
