"""Mechanisms: from a value on a manifold and an amount of privacy to noise, its cost and its error."""

from geodp.mechanisms.choice import Candidate, Hidden, candidates, choose
from geodp.mechanisms.intrinsic import IntrinsicMechanism
from geodp.mechanisms.mechanism import Draw, Mechanism
from geodp.mechanisms.tangent import TangentMechanism

__all__ = ["Candidate", "Draw", "Hidden", "IntrinsicMechanism", "Mechanism", "TangentMechanism", "candidates", "choose"]
