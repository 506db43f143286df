"""Peak memory of a large kernel matrix, in a process of its own."""

import json
import subprocess
import sys

from .._report import Report

CODE = """
import json, resource, time
import numpy as np
import manifoldseq as ms
from manifoldseq_lds import Systems
N, M, m, n = 20000, 1000, 177, 10
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
rng = np.random.default_rng(0)
A = rng.standard_normal((N, n, n))
A *= (rng.uniform(0.5, 0.9, N) / np.linalg.norm(A, 2, axis=(1, 2)))[:, None, None]
C = np.empty((N, m, n))
for i in range(0, N, 1000):
    C[i : i + 1000] = np.linalg.qr(rng.standard_normal((1000, m, n)))[0]
data = Systems.trusted({"A": A, "C": C})
kernel = ms.get_kernel("projection")
with ms.execution.one_blas_thread():
    began = time.process_time()
    packed = kernel.pack(data)
    pack = time.process_time() - began
    K = kernel.cross(packed[:M], packed)
    spent = time.process_time() - began
assert abs(K[5, 5] - n) < 1e-9
print(json.dumps({"peak": peak(), "pack": pack, "seconds": spent}))
"""


def run(report: Report) -> None:
    """Measure."""
    report.title("kernel matrix of 20,000 x 1,000 systems, m=177, n=10, in a process of its own")
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout)
    report.row("peak memory in GiB, the data (0.28 GiB) and the matrix (0.15 GiB) included", measured["peak"], most=2)
    report.row("CPU seconds", measured["seconds"])
    report.row("of them for packing", measured["pack"])
