from ._geometry import Geometry as Geometry
from ._geometry import geometry as geometry
from ._pure import Solution as Solution
from ._pure import minimize as minimize
from ._pure import status as status
