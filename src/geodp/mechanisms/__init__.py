"""Mechanisms: how much noise, and why it is enough."""

from geodp.mechanisms.intrinsic import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
