"""Pose graphs: residuals between poses of SE(2) and SE(3), and files of g2o."""

from ._between import between
from ._g2o import PoseGraph, read_g2o, write_g2o
from ._g2o import g2o_text as g2o_text
from ._g2o import graph_problem as graph_problem

__all__ = ["PoseGraph", "between", "read_g2o", "write_g2o"]
