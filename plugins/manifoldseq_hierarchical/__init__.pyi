from ._encoder import HierarchicalSequenceEncoder as HierarchicalSequenceEncoder
from ._encoder import StorageReport as StorageReport
from ._encoder_plots import plot_distances as plot_distances
from ._encoder_plots import plot_storage as plot_storage
from ._kmeans import SubspaceKMeans as SubspaceKMeans
from ._subspace import SubspaceEncoder as SubspaceEncoder
from ._subspace_plots import plot_coordinates as plot_coordinates
from ._subspace_plots import plot_gain as plot_gain
