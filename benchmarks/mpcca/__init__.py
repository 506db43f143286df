"""Figures of the M-PCCA plugin."""
