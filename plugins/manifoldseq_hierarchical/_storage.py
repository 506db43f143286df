"""What an encoded sequence takes, to the byte."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StorageReport:
    """Bytes of everything that must be kept to search an encoded sequence.

    Attributes
    ----------
    parts : dict of str to int
        Bytes by part: ``codes`` of the points, ``subspace`` (V and the origin), ``quantizer`` (scales or codebooks),
        ``growth`` (the sum of an unfinished segment), ``numbers`` (lengths and places). Not ``singular_values_``, which
        a model file keeps too and no search needs.
    n_frames : int
    resident : int
        Bytes of the decoded points and nodes that a search makes from these and keeps in memory.

    Examples
    --------
    >>> report = StorageReport({"codes": 600, "subspace": 400}, n_frames=500, resident=8000)
    >>> report.total, report.per_frame
    (1000, 2.0)
    >>> print(report)
    codes               600 bytes   60.0 %
    subspace            400 bytes   40.0 %
    total              1000 bytes    2.000 per frame, 500 frames
    in memory          8000 bytes, made from them by the first search
    """

    parts: dict[str, int]
    n_frames: int
    resident: int

    @property
    def total(self) -> int:
        """Bytes in all, without `resident`."""
        return sum(self.parts.values())

    @property
    def per_frame(self) -> float:
        """Bytes per frame."""
        return self.total / self.n_frames

    def __str__(self) -> str:
        lines = [f"{name:<13}{size:>10} bytes  {size / self.total:6.1%}" for name, size in self.parts.items()]
        lines = [line.replace("%", " %") for line in lines]
        lines.append(f"{'total':<13}{self.total:>10} bytes   {self.per_frame:6.3f} per frame, {self.n_frames} frames")
        lines.append(f"{'in memory':<13}{self.resident:>10} bytes, made from them by the first search")
        return "\n".join(lines)
