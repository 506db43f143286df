"""Convolutional features as a layer of a network in torch, to be trained with labels through its projection."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..features._convolution import ConvolutionalFeatures
from ..features._patches import CONSTANT, sizes_of
from ._torch import check_input, load_torch, module_base


class HOPEConvolution(module_base()):  # pyright: ignore[reportUntypedBaseClass]
    """A fitted `ConvolutionalFeatures` as a torch module: patches, projection, rectified units, cells.

    The module starts from the parameters that were learned without labels. Append a classifier and train both:
    gradients are propagated through the power of the sums, the cells, the units and the orthonormal projection to the
    images, so that layers before it can be trained too. `manifoldseq.torch.RiemannianSGD` or `RiemannianAdam` keeps the
    projection orthonormal.

    Parameters
    ----------
    features : ConvolutionalFeatures
        Fitted features whose units respond to directions: `HOPE` with ``family="movmf"``, `PCAMovMF`,
        `VonMisesFisherMixture` or `SphericalKMeans`.

    Attributes
    ----------
    U : manifoldseq.torch.OrthonormalParameter of shape (M, D)
        The projection, or the identity if the model has none. The columns have the order of
        `torch.nn.functional.unfold`: channel by channel.
    weight : torch.nn.Parameter of shape (K, M)
        Concentrations times directions.
    bias : torch.nn.Parameter of shape (K,)
        The bias of the responses minus the threshold.

    Raises
    ------
    ValueError
        If the units are of another kind.
    sklearn.exceptions.NotFittedError
        If the features are not fitted.
    ImportError
        If torch is not installed.

    Notes
    -----
    The module uses float32; ``double()`` converts it to float64. If a sum is zero, the derivative of its square root is
    set to zero, because no unit is active. Derivatives near zero can be large: use small learning rates. The features
    equal the result of `transform`, cell by cell; ``eta.unflatten(1, (down, right, K)).movedim(3, 1)`` is an image for
    a further layer. All patches of an image are in memory. For images of 28 x 28 pixels and patches of 6 x 6 pixels,
    they need 76 kB; the responses need the same amount for every 36 units.

    References
    ----------
    Zhang, Jiang, sections 5.1, 5.2 and 6.1.1, equations (37)-(39).

    Examples
    --------
    >>> import torch
    >>> from sklearn.datasets import load_digits
    >>> from manifoldseq.torch import RiemannianAdam, orthonormality
    >>> from manifoldseq_hope import ConvolutionalFeatures, HOPEConvolution, PCAMovMF
    >>> images = torch.tensor(load_digits().images, dtype=torch.float32)
    >>> labels = torch.tensor(load_digits().target)
    >>> features = ConvolutionalFeatures(PCAMovMF(20, n_latent=6, kappa=40.0), patch_size=4, random_state=0)
    >>> layer = HOPEConvolution(features.fit(images.numpy()))
    >>> bool(abs(layer(images[:5]).detach().numpy() - features.transform(images[:5].numpy())).max() < 1e-4)
    True
    >>> net = torch.nn.Sequential(layer, torch.nn.Linear(80, 10))
    >>> optimizer = RiemannianAdam(net.parameters(), lr=0.01)
    >>> for some in torch.arange(1500).split(100):
    ...     optimizer.zero_grad()
    ...     torch.nn.functional.cross_entropy(net(images[some]), labels[some]).backward()
    ...     optimizer.step()
    >>> orthonormality(layer.U) < 1e-6
    True
    """

    def __init__(self, features: ConvolutionalFeatures) -> None:
        torch = load_torch()
        from manifoldseq.torch import orthonormalize

        if not isinstance(features, ConvolutionalFeatures):
            raise ValueError(f"features is of type {type(features).__name__}: pass fitted ConvolutionalFeatures")
        check_is_fitted(features, "threshold_")
        super().__init__()
        patches, units = features._patches, features._responses(np.float64)
        if not units.linear:
            raise ValueError(
                f"the units of {type(features.model_).__name__} are not linear in directions: pass features of "
                "HOPE(family='movmf'), PCAMovMF, VonMisesFisherMixture or SphericalKMeans"
            )
        D, channels = len(patches.offsets), sizes_of(patches.image_shape)[2]
        U = np.eye(D) if units.U is None else units.U
        # columns of U go pixel by pixel, those of unfold channel by channel
        U = U.reshape(len(U), -1, channels).transpose(0, 2, 1).reshape(len(U), D)
        single = {"dtype": torch.float32}
        self.U = torch.nn.Parameter(torch.tensor(U, **single))
        orthonormalize(self, "U")
        self.weight = torch.nn.Parameter(torch.tensor(units.W[features.units_], **single))
        bias = units.b[features.units_] - features.threshold_
        self.bias = torch.nn.Parameter(torch.tensor(bias, **single))
        self.register_buffer("shares", torch.tensor(patches.shares[np.argsort(patches.corners)].T.copy(), **single))
        self.image_shape, self.patch_shape, self.stride = patches.image_shape, patches.patch_shape, features._sizes[1]
        self.unit, self.power = units.unit, float(features.power)
        self.register_buffer("centre", None if units.c is None else torch.tensor(units.c[:, 0], **single))

    def forward(self, images: Any) -> Any:
        """Return the features of images, (N, cells * K).

        Parameters
        ----------
        images : torch.Tensor of shape (N, H, W), (N, H W) or (N, channels, H, W)
            Images in the dtype of the layer, or in any dtype under `torch.autocast`.
        """
        torch = load_torch()
        check_input("images", images, self.weight)
        H, W, channels = sizes_of(self.image_shape)
        shape = (len(images), channels, H, W)
        one = ((H, W), (H * W,)) if channels == 1 else ()
        if images.shape[1:] != shape[1:] and images.shape[1:] not in one:
            raise ValueError(f"the images have shape {tuple(images.shape)}: pass {('N', *shape[1:])}")
        images = images.to(self.weight.dtype)  # autocast casts products only, and patches need their precision
        unfold, linear, tiny = torch.nn.functional.unfold, torch.nn.functional.linear, torch.finfo(images.dtype).tiny
        x = unfold(images.reshape(shape), self.patch_shape, stride=self.stride).movedim(1, 2)  # (N, P, D)
        with torch.no_grad():
            high, low = x.amax(2), x.amin(2)
            largest = torch.maximum(high.abs(), low.abs()) * CONSTANT
            varied = high - low > largest.clamp_min((tiny / torch.finfo(images.dtype).eps) ** 0.5)
        x = x - x.mean(2, keepdim=True)
        # a deviation of zero has no derivative: constant patches take another, and are left out below
        square = torch.where(varied, x.square().mean(2), 1.0)[..., None]
        z = linear(x * (square * (x.shape[2] if self.unit == "x" else 1.0)).rsqrt(), self.U)
        if self.centre is not None:
            z = z - self.centre
        if self.unit == "z":
            tiny = torch.finfo(z.dtype).tiny  # of half precision under autocast
            z = z * torch.where(varied, z.square().sum(2), 1.0)[..., None].clamp_min(tiny).rsqrt()
        eta = torch.relu(linear(z, self.weight, self.bias)) * varied[..., None]
        pooled = (self.shares @ eta).flatten(1)
        tiny = torch.finfo(pooled.dtype).tiny
        # clamped, as the infinite derivative at zero, times nothing, were NaN
        return pooled if self.power == 1 else torch.where(pooled > 0, pooled.clamp_min(tiny) ** self.power, 0.0)

    def orthonormality(self) -> float:
        """Return the largest entry of ``|U U' - I|``, summed in float64."""
        from manifoldseq.torch import orthonormality

        return orthonormality(self.U)

    def extra_repr(self) -> str:
        """Describe the sizes, as torch prints them."""
        cells, K = len(self.shares), len(self.weight)
        return f"image_shape={self.image_shape}, patch_shape={self.patch_shape}, cells={cells}, n_units={K}"
